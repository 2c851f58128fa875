"""One model, several layouts: the same losses, the same gradients, the traffic of the formulas."""

from pathlib import Path

import pytest
import torch
from assembled import gradients, note, sizes
from programs import CASES, MAIN, SHAPE

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    """Distance of two tensors over the length of the second; padding rows of `one` must be 0."""
    if one.shape != other.shape:
        assert not one[other.shape[0] :].any(), "padding has a gradient"
        one = one[: other.shape[0]]
    return float((one - other).norm() / other.norm())


def losses(out: Path, layout: str, case: str) -> list[list[float]]:
    return [note(out, layout, case, rank)["losses"] for rank in range(sizes(layout).world_size)]


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        (case, layout)
        for case in ("sgd", "wide", "serial", "deep")
        for layout in CASES[case].layouts
    ],
)
def test_losses_and_gradients_in_float64_do_not_depend_on_the_layout(
    agreed: Path, case: str, layout: str
) -> None:
    expected = losses(agreed, "1,1,1", case)[0]
    for found in losses(agreed, layout, case):
        assert found == pytest.approx(expected, rel=1e-12, abs=0)
    reference = gradients(agreed, "1,1,1", case)
    for step, gradient in enumerate(gradients(agreed, layout, case)):
        assert gradient.keys() == reference[step].keys()
        worst = max(relative(gradient[name], reference[step][name]) for name in gradient)
        assert worst <= 1e-12, f"step {step + 1}"


@pytest.mark.parametrize("layout", MAIN)
def test_losses_in_float32_with_adam_do_not_depend_on_the_layout(agreed: Path, layout: str) -> None:
    expected = losses(agreed, "1,1,1", "adam")[0]
    for found in losses(agreed, layout, "adam"):
        assert found == pytest.approx(expected, rel=1e-5, abs=0)


def test_twenty_steps_change_the_loss_by_far_more_than_the_tolerance(agreed: Path) -> None:
    for case in ("sgd", "adam"):
        found = losses(agreed, "1,1,1", case)[0]
        assert len(found) == 20
        assert max(found) - min(found) > 0.05


@pytest.mark.parametrize("layout", MAIN)
def test_the_gradient_norm_counts_each_element_of_the_model_once(agreed: Path, layout: str) -> None:
    for step, gradient in enumerate(gradients(agreed, layout, "sgd")):
        expected = torch.stack([part.norm() for part in gradient.values()]).norm()
        for rank in range(sizes(layout).world_size):
            norm = note(agreed, layout, "sgd", rank)["norms"][step]
            assert norm == pytest.approx(float(expected), rel=1e-12)


def tensor_calls(out: Path, case: str) -> float:
    return note(out, "2,1,1", case, 0)["calls"]["tensor all_reduce"]


def test_the_parallel_block_has_half_the_collectives_of_the_serial_one(agreed: Path) -> None:
    m, layers = SHAPE.micro_batches(1), SHAPE.layers
    ends = 1 + 2 + 1  # embedding; the cross-entropy's two; the gradient that enters the head
    assert tensor_calls(agreed, "sgd") == m * (layers * (1 + 1) + ends)
    assert tensor_calls(agreed, "serial") == m * (layers * (2 + 2) + ends)


def test_each_stage_runs_1f1b_with_at_most_p_micro_batches_in_flight(agreed: Path) -> None:
    for layout, case in (("1,4,1", "deep"), ("1,2,1", "sgd")):
        stages, m = sizes(layout).pp, CASES[case].shape.micro_batches(1)
        for stage in range(stages):
            for log in note(agreed, layout, case, stage)["logs"]:
                kinds = [kind for kind, _ in log]
                assert kinds.index("backward") == stages - stage  # p - rank - 1, and the pair's own
                in_flight = [
                    kinds[:i].count("forward") - kinds[:i].count("backward")
                    for i in range(len(kinds) + 1)
                ]
                assert max(in_flight) == stages - stage
                for kind in ("forward", "backward"):
                    assert [k for one, k in log if one == kind] == list(range(m))


def test_an_edge_of_the_pipeline_carries_b_s_h_a_micro_batch_each_way(agreed: Path) -> None:
    edge = SHAPE.micro_batch * SHAPE.seq * SHAPE.hidden
    for rank in (0, 1):
        found = note(agreed, "1,2,1", "sgd", rank)
        assert found["elements"]["pipeline send"] == SHAPE.micro_batches(1) * edge


def test_optimizer_state_is_shared_out_over_the_replicas(agreed: Path) -> None:
    for layout in MAIN:
        for rank in range(sizes(layout).world_size):
            found = note(agreed, layout, "adam", rank)
            share = found["parameters"] / sizes(layout).dp
            assert found["state"] == {"mean": share, "square": share}

"""What one layout has saved another goes on from: parameters, and what the optimizer keeps."""

import json
import re
from pathlib import Path

import pytest
import torch
from assembled import sizes, whole_state

from conftest import launch

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]

FIRST, STEPS, MORE = "2,1,2", 5, 5
OTHERS = ("2,1,2", "2,2,2", "1,2,2", "1,1,1", "1,1,4", "3,1,1", "4,1,1")
"""Three tensor-parallel ranks pad the vocabulary; four replicas cut amid parameters."""


def store(out: Path, layout: str) -> str:
    return (out / layout / "store").as_uri()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("saved")
    return launch("carry_on", out, (FIRST,), TEST_STEPS=str(STEPS))


@pytest.fixture(scope="module")
def others(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("others")
    more = {"TEST_STEPS": str(STEPS + MORE), "TEST_FROM": store(saved, FIRST)}
    return launch("carry_on", out, OTHERS, **more)


def losses(out: Path, layout: str) -> dict[str, float]:
    return json.loads((out / layout / "rank_0" / "losses.json").read_text())


@pytest.mark.parametrize("layout", OTHERS)
def test_what_is_loaded_is_what_was_saved_bit_for_bit(
    saved: Path, others: Path, layout: str
) -> None:
    before, after = whole_state(saved, FIRST, "ended"), whole_state(others, layout, "began")
    kept = [name for name in before if name.startswith("optimizer.")]
    assert len(kept) == 2 * (len(before) - len(kept)) > 20
    assert before.keys() == after.keys()
    for name, one in before.items():
        assert not one.isnan().any(), f"{name}: nobody has a part of it"
        assert torch.equal(one, after[name]), name
    assert sum(bool(before[name].any()) for name in kept) == len(kept)


@pytest.mark.parametrize("layout", OTHERS)
def test_it_goes_on_as_on_the_layout_that_saved_it(others: Path, layout: str) -> None:
    expected = losses(others, FIRST)
    assert list(losses(others, layout)) == [str(STEPS + n + 1) for n in range(MORE)]
    assert losses(others, layout) == pytest.approx(expected, rel=1e-12, abs=0)
    reference, found = (whole_state(others, one, "ended") for one in (FIRST, layout))
    for name, one in reference.items():
        assert torch.allclose(found[name], one, rtol=1e-8, atol=1e-11), name


@pytest.mark.parametrize("layout", ["2,1,2", "2,2,2"])
def test_stages_change_no_bit_of_what_follows(others: Path, layout: str) -> None:
    reference, found = (whole_state(others, one, "ended") for one in (FIRST, layout))
    assert all(torch.equal(found[name], one) for name, one in reference.items())


def test_each_replica_has_its_share_of_what_the_optimizer_keeps(others: Path) -> None:
    for layout in OTHERS:
        for rank in range(sizes(layout).world_size):
            lines = json.loads((others / layout / f"rank_{rank}" / "began.json").read_text())
            assert all(len(one["global_shape"]) == 1 for n, one in lines.items() if "mean." in n)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (
            {"hidden": 12},
            "attention.out.weight: a part of [12, 12] here, but the checkpoint",
        ),
        ({"layers": 4}, "model.block.2.mlp.wide.weight: not in the checkpoint"),
    ],
)
def test_another_model_is_refused_with_what_does_not_fit(
    saved: Path, tmp_path: Path, shape: dict[str, int], told: str
) -> None:
    more = {"TEST_STEPS": "9", "TEST_FROM": store(saved, FIRST), "TEST_SHAPE": json.dumps(shape)}
    with pytest.raises(AssertionError, match="does not fit the script's state") as failed:
        launch("carry_on", tmp_path, ("1,1,1",), **more)
    assert told in str(failed.value)
    assert "Nothing was changed" in str(failed.value)


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"heads": 6}, "--heads: 6, but the checkpoint's model has 12. Give that."),
        ({"layers": 1}, "--layers: 1, but the checkpoint's model has 2. Give that."),
    ],
)
def test_so_is_one_that_would_fit(
    saved: Path, tmp_path: Path, shape: dict[str, int], told: str
) -> None:
    more = {"TEST_STEPS": "9", "TEST_FROM": store(saved, FIRST), "TEST_SHAPE": json.dumps(shape)}
    with pytest.raises(AssertionError, match=re.escape(told)):
        launch("carry_on", tmp_path, ("1,1,1",), **more)

"""Whether a rank brings numbers into a reduction: seen in real gloo ranks, before it is summed."""

from typing import Any

import pytest
from waiting import eventually

from holdfast.telemetry import looks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DDP = """
import math, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 13):
    optimizer.zero_grad()
    wrong = math.nan if rank == 1 and step == 6 else 1.0
    (model(torch.ones(2, 32)).square().mean() * wrong).backward()
    overflowed = not all(p.grad.isfinite().all() for p in model.parameters())
    if SCALES and overflowed:
        for p in model.parameters():
            p.grad.zero_()
    optimizer.step()
print("done", flush=True)
import time
while True:
    time.sleep(0.1)
"""


def groups(ranks: Any, *, scales: bool) -> list[Any]:
    running = ranks(DDP.replace("SCALES", str(scales)), 3)
    eventually(lambda: running.there() and "done" in running.output(2), "the script is done")
    return [running.read(rank).groups[0] for rank in range(3)]


def test_of_an_unmodified_ddp_script_it_is_seen_who_had_no_number_first(ranks: Any) -> None:
    others, first = [0, 2], groups(ranks, scales=False)
    assert first[1].bad_step == 6
    assert first[1].good < first[1].bad
    for rank in others:
        assert first[rank].good >= first[1].bad, "it brought numbers when rank 1 brought none"
        assert first[rank].bad > first[1].bad, "and none from the next step on"


def test_a_step_that_is_skipped_for_an_overflow_is_over_with_the_next(ranks: Any) -> None:
    told = groups(ranks, scales=True)
    assert [each.bad for each in told] == [0, 0, 0]
    assert len({each.good for each in told}) == 1


CLIPS = """
import torch
one, other = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.0)
for factor in FACTORS:
    optimizer.zero_grad()
    (factor * one(torch.ones(4)).sum() + other(torch.ones(4)).sum()).backward()
    from torch.nn.utils import clip_grad_norm_
    clip_grad_norm_(one.parameters(), 1e9)
    torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
    optimizer.step()
print("done", flush=True)
import time
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("factors", "norm"), [("[1.0, 3.0]", 160**0.5), ("[3.0, float('inf')]", 160**0.5)]
)
def test_the_norm_of_what_a_step_clips_is_seen(ranks: Any, factors: str, norm: float) -> None:
    """Of both models: 12 and 4. One that is no number leaves the one before."""
    running = ranks(CLIPS.replace("FACTORS", factors), 1)
    eventually(lambda: running.there() and "done" in running.output(0), "the script is done")
    assert running.read(0).grad_norm == pytest.approx(norm)


@pytest.mark.parametrize(
    ("tensor", "numbers"),
    [
        (torch.ones(1000), True),
        (torch.full((1000,), float("nan")), False),
        (torch.tensor([float("inf"), -float("inf")] * 200), False),
        (torch.full((1000,), 3e38), True),  # its sum is too large
        (torch.full((1000,), 6e4, dtype=torch.float16), True),
        (torch.full((1000,), float("inf"), dtype=torch.bfloat16), False),
        (torch.ones(1000, requires_grad=True), True),
        (torch.full((3,), float("nan")), None),  # a loss
        (torch.ones(1000, dtype=torch.int64), None),
        (torch.ones(100, 100).t(), None),
        (torch.ones(1000).to(torch.float8_e4m3fn), None),
        (torch.ones(1000).to(torch.bfloat16), True),
        (torch.ones(1000, device="meta"), None),
    ],
)
def test_what_is_looked_at(tensor: Any, numbers: bool | None) -> None:
    assert looks.numbers([tensor]) is numbers
    assert looks.numbers([]) is None


@pytest.mark.parametrize(("told", "wanted"), [("off", False), ("", True), ("on", True)])
def test_it_may_be_left_out(monkeypatch: pytest.MonkeyPatch, told: str, wanted: bool) -> None:
    monkeypatch.setenv("HOLDFAST_LOOKS", told)
    assert looks.wanted() is wanted

"""Three real kinds of hang in real gloo ranks, seen through rings and judged by the detectors."""

import os
import signal
import time
from typing import Any

import pytest
from msgspec.structs import replace
from ring_observer import HANGING_FLOOR_S, Observer

from holdfast.protocol.faults import Kind

pytestmark = pytest.mark.torch

SCRIPT = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, here = dist.get_rank(), os.path.dirname(__file__)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def hang():
    kind = open(os.path.join(here, f"hang.{rank}")).read()
    if kind == "spin":
        while True:
            pass
    end, _ = os.pipe()
    os.read(end, 1)

while True:
    optimizer.zero_grad()
    loss = model(torch.ones(4, 16)).sum()
    if os.path.exists(os.path.join(here, f"hang.{rank}")):
        hang()
    loss.backward()
    optimizer.step()
    time.sleep(0.05)
"""

PIPELINE = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size, here = dist.get_rank(), dist.get_world_size(), os.path.dirname(__file__)
parameter = torch.nn.Parameter(torch.ones(1))
parameter.grad = torch.ones(1)
optimizer = torch.optim.SGD([parameter], lr=0.01)
block = torch.ones(8)
while True:
    if rank > 0:
        dist.recv(block, rank - 1)
    if os.path.exists(os.path.join(here, f"hang.{rank}")):
        end, _ = os.pipe()
        os.read(end, 1)
    sent = dist.isend(block, rank + 1) if rank + 1 < size else None
    if sent is not None:
        sent.wait()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.wait()
    optimizer.step()
    time.sleep(0.02)
"""

STOPS, STOPPED_S = 18, 0.4
"""Together longer than the floor of ranks that train."""


@pytest.mark.parametrize(
    ("script", "count", "victim", "kind", "hide"),
    [
        pytest.param(SCRIPT, 3, 0, "stop", False, id="rank 0 stopped"),
        pytest.param(SCRIPT, 3, 2, "stop", True, id="rank 2 stopped, states hidden"),
        pytest.param(SCRIPT, 3, 1, "spin", False, id="rank 1 spins in Python"),
        pytest.param(SCRIPT, 2, 1, "pipe", False, id="rank 1 of 2 is blocked on a pipe"),
        pytest.param(PIPELINE, 3, 1, "pipe", True, id="a middle stage is blocked, states hidden"),
        pytest.param(PIPELINE, 3, 2, "stop", True, id="the last stage is stopped, states hidden"),
    ],
)
def test_the_rank_that_hangs_is_named(
    ranks: Any, script: str, count: int, victim: int, kind: str, hide: bool
) -> None:
    running = ranks(script, count)
    observer = Observer(running.rings, count, hide)
    observer.until(lambda: observer.step() >= 20, "twenty steps")
    assert observer.found == [], "nobody is accused while it trains"
    if kind == "stop":
        os.kill(running.pids[victim], signal.SIGSTOP)
    else:
        (running.folder / "hang").write_text(kind)
        (running.folder / "hang").rename(running.folder / f"hang.{victim}")
    observer.expect(HANGING_FLOOR_S)
    observer.until(lambda: observer.found, "a finding")
    (finding,) = observer.found
    assert (finding.kind, finding.rank) == (Kind.HANG, victim), finding
    assert any(f"end at rank {victim}" in piece.text for piece in finding.evidence)


def test_a_rank_that_is_stopped_and_continued_again_and_again_is_slow_and_not_hung(
    ranks: Any,
) -> None:
    running = ranks(SCRIPT, 2)
    observer = Observer(running.rings, 2, hide=False)
    observer.until(lambda: observer.step() >= 20, "twenty steps")
    for _ in range(STOPS):
        os.kill(running.pids[1], signal.SIGSTOP)
        half_s = time.monotonic() + STOPPED_S
        observer.until(lambda until_s=half_s: time.monotonic() > until_s, "stopped for a while")
        os.kill(running.pids[1], signal.SIGCONT)
        before = observer.step()
        observer.until(lambda before=before: observer.step() > before, "it goes on")
    assert observer.found == []


NEVER_COMES = """
import os, torch, torch.distributed as dist
from torch.distributed.rendezvous import rendezvous
if os.environ["RANK"] == "1":
    store = next(rendezvous("env://"))  # that of the others is served then, as by Holdfast
    end, _ = os.pipe()
    os.read(end, 1)
dist.init_process_group("gloo")
"""


def test_who_does_not_come_to_init_process_group_is_named(ranks: Any) -> None:
    running = ranks(NEVER_COMES, 3)
    observer = Observer(running.rings, 3, hide=False)

    def waiting() -> set[int]:
        told = observer.progress.ranks(observer.awake.now())
        return {seen.rank for seen in told if seen.waiting}

    observer.until(lambda: waiting() == {0, 2}, "the others are in there")
    observer.expected = replace(observer.expected, first_step_s=1.0)
    observer.expect(HANGING_FLOOR_S)
    observer.until(lambda: observer.found, "a finding")
    (finding,) = observer.found
    assert (finding.kind, finding.rank) == (Kind.HANG, 1)
    said = "2 of 3 ranks are in init_process_group, to which rank 1 has not come"
    assert finding.summary.endswith(said)


SLEEP_S = 12
"""Twice what a stuck rank has here; that is three floors."""


def test_a_rank_that_sleeps_while_its_peers_wait_is_told_and_left_alone(ranks: Any) -> None:
    running = ranks(
        SCRIPT.replace("    end, _", f"    return time.sleep({SLEEP_S})\n    end, _"), 2
    )
    observer = Observer(running.rings, 2, hide=False)
    observer.until(lambda: observer.step() >= 10, "training")
    observer.expect(HANGING_FLOOR_S)
    (running.folder / "hang.0").write_text("sleep")
    began = observer.step()
    observer.until(lambda: observer.reported or observer.found, "a standstill")
    (running.folder / "hang.0").rename(running.folder / "slept")
    observer.until(lambda: observer.step() > began + 5 or observer.found, "it trains again")
    assert observer.found == []
    said, clear, *_ = observer.reported
    assert (said.kind, clear.kind) == (Kind.STANDSTILL, Kind.GOES_ON)
    assert said.rank == 0

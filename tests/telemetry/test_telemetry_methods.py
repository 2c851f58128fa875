"""Collectives seen without hooks on groups, as with torch 2.9 to 2.13, by whichever torch is here.

HOLDFAST_HOOKS=methods takes this way. What the tests beside this one prove of hangs holds for it
too where a torch of then runs them; here it is what differs.
"""

import gc
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ring_observer import HANGING_FLOOR_S, Observer
from waiting import eventually

from holdfast.telemetry import current, methods
from holdfast.telemetry.collectives import Watched
from holdfast.telemetry.recorder import Group, Recorder
from holdfast.telemetry.ring import RingWriter

pytestmark = pytest.mark.torch

TALK = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
odd = dist.new_group([0, 1])
if rank < 2:
    dist.all_reduce(torch.ones(3), group=odd)
    for _ in range(3):  # messages are counted by torch like collectives
        (dist.send if rank == 0 else dist.recv)(torch.ones(1), 1 - rank)
dist.monitored_barrier()  # of messages, too
dist.all_gather([torch.ones(2) for _ in range(world)], torch.ones(2))
dist.all_reduce(torch.ones(4, 8))
print("done", flush=True)
import time
while True:
    time.sleep(0.1)
"""


def test_what_python_calls_and_what_c_does_by_itself_has_one_number_on_all_ranks(
    ranks: Any,
) -> None:
    running = ranks(TALK, 3, HOLDFAST_HOOKS="methods")
    eventually(
        lambda: running.there() and all("done" in running.output(r) for r in range(3)), "done"
    )
    worlds = [running.read(rank).groups[0] for rank in range(3)]
    assert len({world.enqueued for world in worlds}) == 1, worlds
    assert {world.kind for world in worlds} == {"all_reduce"}
    assert len({world.fingerprint for world in worlds}) == 1
    for world in worlds:
        # The verification of DDP's shapes, its broadcasts and ten buckets; then two of our own.
        assert world.enqueued >= 13
        assert dict(world.marks)[10] - dict(world.marks)[8] == 2, "one bucket a step"
    for rank in range(3):
        seen = running.read(rank)
        assert [group.enqueued for group in seen.groups[1:]] == ([1] if rank < 2 else [])
        assert sum(peer.sends + peer.receives for peer in seen.peers) == (3 if rank < 2 else 0)
        assert "done" in seen.partial, "nobody knows when DDP's are"
        assert "collectives" not in seen.partial


HANGS = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, here = dist.get_rank(), os.path.dirname(__file__)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    loss = model(torch.ones(4, 16)).sum()
    if rank == 1 and os.path.exists(os.path.join(here, "hang")):
        end, _ = os.pipe()
        os.read(end, 1)
    loss.backward()
    optimizer.step()
    time.sleep(0.05)
"""


def test_a_rank_that_hangs_in_ddp_is_named(ranks: Any) -> None:
    running = ranks(HANGS, 3, HOLDFAST_HOOKS="methods")
    observer = Observer(running.rings, 3, hide=True)
    observer.until(lambda: observer.step() >= 20, "twenty steps")
    observer.expect(HANGING_FLOOR_S)
    (running.folder / "hang").touch()
    observer.until(lambda: observer.found, "it is named")
    assert {finding.rank for finding in observer.found} == {1}
    assert "done" in running.read(0).partial, "by what was enqueued alone"


class Sums:
    """A group whose numbers a test gives."""

    def __init__(self) -> None:
        self.sequence = 5

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence

    def allreduce(self, tensors: Any, *, more: int = 1, inside: Any = None) -> str:
        self.sequence += more
        if inside is not None:
            inside()
        return "work"

    def send(self, tensors: Any, to: int, tag: int = 0, *, inside: Any = None) -> str:
        self.sequence += 1
        if inside is not None:
            inside()
        return "work"


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Sums, Group]:
    recorder = Recorder(RingWriter(tmp_path / "ring", rank=0, epoch=1))
    monkeypatch.setattr(current, "recorder", recorder)
    kind = type("Hooked", (Sums,), {})
    methods.hook_methods(SimpleNamespace(ProcessGroup=kind))
    counts = recorder.new_group([0, 1])
    assert counts is not None
    group = kind()
    methods.watch(group, Watched(recorder, counts, [0, 1], polled=False))
    return group, counts


def test_what_was_before_the_group_was_watched_does_not_count(counted: tuple[Sums, Group]) -> None:
    group, counts = counted
    counts.mark(1)
    assert counts.enqueued == 0
    assert group.allreduce([]) == "work"
    assert counts.enqueued == 1


def test_a_collective_that_torch_does_not_count_is_counted_all_the_same(
    counted: tuple[Sums, Group],
) -> None:
    group, counts = counted
    group.allreduce([], more=0)
    group.allreduce([], more=1)
    counts.mark(1)
    assert counts.enqueued == 2


def test_what_c_enqueues_beside_a_collective_is_counted_as_well(
    counted: tuple[Sums, Group],
) -> None:
    group, counts = counted
    group.allreduce([], more=3)
    counts.mark(1)
    assert counts.enqueued == 3


def test_a_message_is_no_collective_though_torch_counts_it_and_somebody_looks_meanwhile(
    counted: tuple[Sums, Group],
) -> None:
    group, counts = counted
    group.allreduce([])
    group.send([], 1, inside=lambda: counts.mark(1))
    group.send([], 1)
    counts.mark(2)
    assert counts.enqueued == 1


def test_a_collective_beside_a_message_of_another_thread_is_one(
    counted: tuple[Sums, Group],
) -> None:
    group, counts = counted
    group.send([], 1, inside=lambda: group.allreduce([]))
    group.allreduce([])
    counts.mark(1)
    assert counts.enqueued == 2


class Interrupts:
    """A tensor at which a signal comes, as it is looked at."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def numel(self) -> int:
        handler, self._handler = self._handler, lambda: None
        handler()
        return 1

    def element_size(self) -> int:
        return 4


def test_a_collective_of_a_signals_handler_does_not_wait_for_the_one_that_it_interrupts(
    counted: tuple[Sums, Group],
) -> None:
    group, counts = counted
    called = threading.Thread(
        target=lambda: group.allreduce([Interrupts(lambda: group.allreduce([]))]), daemon=True
    )
    called.start()
    called.join(20.0)
    assert not called.is_alive()
    counts.mark(1)
    assert counts.enqueued == 2


def test_a_group_in_python_that_has_no_numbers_is_called_all_the_same(
    counted: tuple[Sums, Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, counts = counted
    monkeypatch.delattr(Sums, "_get_sequence_number_for_group")
    assert group.allreduce([]) == "work"
    assert counts.enqueued == 1


def test_of_a_group_that_is_let_go_nothing_is_counted(counted: tuple[Sums, Group]) -> None:
    group, counts = counted
    group.allreduce([])
    methods.forget(group)
    group.allreduce([])
    counts.mark(1)
    assert counts.enqueued == 1


def test_a_group_that_is_gone_is_not_kept_alive(counted: tuple[Sums, Group]) -> None:
    _, counts = counted
    other = Sums()
    methods.watch(other, Watched(counts._recorder, counts, [0, 1], polled=False))
    there = weakref.ref(other)
    del other
    gc.collect()
    assert there() is None
    counts.mark(1)

"""Uploads that are held to a rate, and one that has only what nobody else wants."""

import heapq
import os
import threading
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.pace import Pace, idly
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import UploadLimits


class Virtual(SystemClock):
    """Time passes where a test says so."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Paced:
    """A pace in virtual time, in which bytes cost `cpu_s` each call and resting passes time."""

    def __init__(self, limits: UploadLimits) -> None:
        self.clock = Virtual()
        self.used_s = 0.0
        self.rested_s = 0.0
        self.pace = Pace(self.clock, self.rest, limits=limits, cpu_s=lambda: self.used_s)

    def rest(self, seconds: float) -> None:
        self.rested_s += seconds
        self.clock.now_s += seconds

    def take(self, size_bytes: int, cpu_s: float) -> None:
        self.used_s += cpu_s
        self.clock.now_s += cpu_s
        self.pace.took(size_bytes)


@given(st.lists(st.integers(1, 1 << 22), min_size=20, max_size=60), st.sampled_from([1.0, 20.0]))
def test_no_more_bytes_a_second_than_allowed(sizes: list[int], rate: float) -> None:
    paced = Paced(UploadLimits(mb_per_s=rate))
    began = paced.clock.monotonic_s()
    for size in sizes:
        paced.take(size, 0.001)
    took_s = paced.clock.monotonic_s() - began
    assert took_s >= sum(sizes) / (rate * 1e6)
    assert took_s <= sum(sizes) / (rate * 1e6) + 0.001 * len(sizes) + 1e-6


def test_no_more_cpu_than_its_share() -> None:
    paced = Paced(UploadLimits(cpus=0.25))
    began = paced.clock.monotonic_s()
    for _ in range(100):
        paced.take(1 << 20, 0.01)
    share = paced.used_s / (paced.clock.monotonic_s() - began)
    assert share == pytest.approx(0.25, rel=0.3)


class Stream(NamedTuple):
    """A store, or another node, that takes pieces of this size and counts them."""

    piece_bytes: int
    taken: list[int]


@pytest.mark.parametrize("pieces", [(1 << 20, 1 << 20), (4 << 20, 1 << 16)])
def test_store_and_copies_together_get_no_more_than_allowed(pieces: tuple[int, int]) -> None:
    """Two threads, played in virtual time: each goes on once it has rested."""
    paced = Paced(UploadLimits(mb_per_s=10.0))
    streams = [Stream(size, []) for size in pieces]
    rested: list[float] = []
    paced.pace._rest = rested.append
    turns = [(0.0, number) for number in range(len(streams))]
    while turns[0][0] < 10:
        paced.clock.now_s, number = heapq.heappop(turns)
        streams[number].taken.append(streams[number].piece_bytes)
        paced.pace.took(streams[number].piece_bytes)
        heapq.heappush(turns, (paced.clock.now_s + rested.pop(), number))
    together = sum(sum(stream.taken) for stream in streams)
    assert together == pytest.approx(10.0 * 1e6 * 10, abs=2 * sum(pieces))
    assert min(len(stream.taken) for stream in streams) > 5, "neither waits for ever"


def test_the_processor_time_of_two_threads_counts_together() -> None:
    paced = Paced(UploadLimits(cpus=0.5))
    used = {"store": 0.0, "send": 0.0}
    paced.pace._cpu_s = lambda: used[threading.current_thread().name]
    until: list[float] = []
    paced.pace._rest = until.append
    go_on = {name: threading.Event() for name in used}

    def take(name: str, other: str) -> None:
        for _ in range(5):
            go_on[name].wait()
            go_on[name].clear()
            used[name] += 0.1
            paced.pace.took(1)
            go_on[other].set()

    threads = [
        threading.Thread(target=take, args=pair, name=pair[0])
        for pair in (("store", "send"), ("send", "store"))
    ]
    for thread in threads:
        thread.start()
    go_on["store"].set()
    for thread in threads:
        thread.join()
    # A thread's first call says from where its time counts: 8 of 10 calls used .1 s each.
    assert until[-1] == pytest.approx(8 * 0.1 / 0.5)


def test_bounds_that_change_are_followed_at_once() -> None:
    paced = Paced(UploadLimits())
    paced.take(1 << 20, 0.0)
    paced.pace.limits = UploadLimits(mb_per_s=1.0)
    paced.take(1_000_000, 0.0)
    assert paced.rested_s == pytest.approx(1.0)


def test_without_limits_nothing_rests() -> None:
    paced = Paced(UploadLimits())
    paced.take(1 << 30, 10.0)
    assert paced.rested_s == 0


def test_what_runs_idly_has_idle_priority_and_its_caller_has_not() -> None:
    def look() -> tuple[int, int]:
        return os.sched_getscheduler(0), threading.get_native_id()

    policy, thread = idly(look)
    assert policy == os.SCHED_IDLE
    assert thread != threading.get_native_id()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_an_error_of_what_runs_idly_comes_to_its_caller() -> None:
    def fail() -> None:
        raise OSError("planted")

    with pytest.raises(OSError, match="planted"):
        idly(fail)


@pytest.mark.parametrize("idle", [False, True])
def test_an_upload_is_carried_out_with_its_pace(idle: bool) -> None:
    paced = Paced(UploadLimits(mb_per_s=1.0, idle=idle))

    def write(*, took: object) -> int:
        assert took == paced.pace.took
        return os.sched_getscheduler(0)

    assert paced.pace.carry_out(write) == (os.SCHED_IDLE if idle else os.SCHED_OTHER)

"""Uploads that are held to a rate, and one that has only what nobody else wants."""

import os
import threading

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
        self.pace = Pace(limits, self.clock, self.rest, cpu_s=lambda: self.used_s)

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

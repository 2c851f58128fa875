"""Where a step's time goes, on a clock that the test moves."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter
from holdfast.telemetry.stepclock import StepClock

MS = 1_000_000


class Hand:
    """Moves both clocks of this process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.ran_ns = 1_000 * MS, 7
        patch.setattr(time, "perf_counter_ns", lambda: self.now_ns)
        patch.setattr(time, "thread_time_ns", lambda: self.ran_ns)

    def passes(self, milliseconds: int) -> None:
        self.now_ns += milliseconds * MS


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def in_thread(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def told(clock: StepClock) -> tuple[int, int]:
    """Milliseconds of waits and of pauses until a step that ends now."""
    clock.stepped()
    _, ran_ns, waited_ns, paused_ns = clock.at_step_ns
    assert ran_ns == 7
    return waited_ns // MS, paused_ns // MS


def test_a_wait_of_the_script_counts_and_what_is_enqueued_before_it_does_not_count_twice(
    hand: Hand,
) -> None:
    clock = StepClock()
    clock.enqueued()
    hand.passes(5)  # computes, while the collective is under way
    clock.waits(True)
    hand.passes(30)
    clock.waits(False)
    hand.passes(5)
    clock.optimizes()
    assert told(clock) == (30, 0)


def test_where_no_wait_is_seen_the_time_from_the_last_collective_to_the_optimizer_is_one(
    hand: Hand,
) -> None:
    clock = StepClock()
    clock.enqueued()
    hand.passes(10)
    clock.enqueued()
    hand.passes(20)
    clock.optimizes()
    hand.passes(3)
    clock.optimizes()  # a second optimizer has nothing to wait for
    assert told(clock) == (20, 0)


def test_a_wait_in_a_pause_is_the_pauses(hand: Hand) -> None:
    clock = StepClock()
    clock.enqueued()
    clock.pauses(True)
    clock.waits(True)
    hand.passes(40)
    clock.waits(False)
    clock.pauses(False)
    clock.optimizes()
    assert told(clock) == (0, 40)


def test_what_another_thread_waits_for_holds_up_nobody(hand: Hand) -> None:
    clock = StepClock()

    def waits() -> None:
        clock.enqueued()
        clock.waits(True)
        hand.passes(100)
        clock.waits(False)

    in_thread(waits)
    clock.optimizes()
    assert told(clock) == (0, 0)


def test_what_another_thread_uploads_hides_no_wait_of_the_one_that_trains(
    hand: Hand, tmp_path: Path
) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    clock = recorder.clock
    upload = recorder.pause("pauses")
    in_thread(upload.__enter__)
    with recorder.pause("saves"):
        hand.passes(40)
    recorder.pause_until_step("evaluates")
    hand.passes(10)
    recorder.stepped()
    clock.waits(True)
    hand.passes(20)
    clock.waits(False)
    in_thread(lambda: upload.__exit__(None, None, None))
    assert told(clock) == (20, 50)


def test_a_wait_counts_while_another_thread_waits_too(hand: Hand, tmp_path: Path) -> None:
    recorder = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    in_thread(recorder.waits)
    outer = recorder.waits()
    inner = recorder.waits()  # a Work that waits for one of its own
    hand.passes(10)
    recorder.waited(inner)
    hand.passes(20)
    recorder.waited(outer)
    hand.passes(40)
    recorder.stepped()
    assert told(recorder.clock) == (30, 0)
    assert outer, "the ring says so until the other thread is back"


def test_what_is_computed_in_a_pause_is_no_part_of_a_step(hand: Hand) -> None:
    clock = StepClock()
    clock.pauses(True)
    hand.ran_ns += 50 * MS
    clock.pauses(False)
    assert told(clock) == (0, 0)
    hand.ran_ns += 20 * MS
    clock.stepped()
    assert clock.at_step_ns[1] == 7 + 20 * MS


def test_a_pause_in_another_ends_with_the_outer_one(hand: Hand) -> None:
    clock = StepClock()
    clock.pauses_until_step()
    clock.pauses(True)
    hand.passes(5)
    clock.pauses(False)
    clock.pauses_until_step()
    hand.passes(10)
    assert told(clock) == (0, 15)
    hand.passes(10)
    assert told(clock) == (0, 15)

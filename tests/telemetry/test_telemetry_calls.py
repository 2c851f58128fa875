"""In which call a rank's main thread stands, and until when it sleeps, told by its own pulse."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from holdfast.telemetry import schema
from holdfast.telemetry.calls import AFTER_S, AGAIN_S, LATE_S, Calls
from holdfast.telemetry.recorder import PULSE_S, Recorder
from holdfast.telemetry.ring import RingReader, RingWriter

STANDS = """
import os, subprocess, threading, time
rank = int(os.environ["RANK"])
if rank == 0:
    time.sleep(1_000)
elif rank == 1:
    while True: time.sleep(0.1)
elif rank == 2:
    subprocess.Popen(["cat"], stdin=subprocess.PIPE).wait()  # it ends with its parent
elif rank == 3:
    os.read(os.pipe()[0], 1)
elif rank == 4:
    threading.Event().wait()
"""


@pytest.mark.torch
def test_a_rank_says_for_how_long_it_sleeps_and_what_else_it_waits_for(ranks: Any) -> None:
    running = ranks(STANDS, 5)
    eventually(running.there, "rings")
    calls = ["sleeps", "sleeps", *schema.CALLS[1:3], schema.CALLS[3]]
    eventually(lambda: [running.read(rank).call for rank in range(5)] == calls, "calls")
    sleeper, poller, *others = (running.read(rank) for rank in range(5))
    assert 900 < sleeper.sleep_left_s < sleeper.sleep_s < 1_001
    assert poller.sleep_s < AFTER_S + AGAIN_S, "many short sleeps are no long one"
    assert {each.sleep_left_s for each in others} == {0.0}


class Sleeper:
    """A thread that stands at one line for ever, its sleeps one after another, in virtual time."""

    def __init__(self, ring: Path, sleeps_s: Sequence[float], machine: str = "x86_64") -> None:
        self.calls = Calls(RingWriter(ring, rank=0, epoch=1), machine)
        self.reader = RingReader(ring)
        self.calls._read = self._read  # type: ignore[method-assign]
        self.now_s = self.began_s = 50.0
        self.ends_s = [50.0 + sum(sleeps_s[: at + 1]) for at in range(len(sleeps_s))]
        self.looks = 0

    def _read(self) -> tuple[int, float | None]:
        self.looks += 1
        return 4, next((end_s for end_s in self.ends_s if end_s > self.now_s), None)

    def go(self, seconds: float) -> list[tuple[float, float]]:
        """What the ring says at each pulse: the length of a sleep, and what is left."""
        said = []
        for _ in range(round(seconds / PULSE_S)):
            self.now_s += PULSE_S
            self.calls.sample(self.began_s, self.now_s)
            seen = self.reader.read()
            said.append((seen.sleep_s, seen.sleep_left_s))
        return said


def test_one_long_sleep_is_told_in_full_until_its_end(tmp_path: Path) -> None:
    sleeper = Sleeper(tmp_path / "ring", [20.0])
    assert set(sleeper.go(AFTER_S - 2 * PULSE_S)) == {(0.0, 0.0)}
    said = sleeper.go(17)[3:]
    assert {length_s for length_s, _ in said} == {20.0}
    assert said[-1][1] == pytest.approx(50 + 20 - sleeper.now_s, abs=0.01)
    assert sleeper.looks < 20, "a look a second"
    assert sleeper.go(3 + LATE_S)[-1] == (0.0, 0.0)


def test_a_loop_of_long_sleeps_shows_no_gap_between_them(tmp_path: Path) -> None:
    said = Sleeper(tmp_path / "ring", [20.0] * 5).go(99)
    assert {length_s for length_s, _ in said[round(AFTER_S / PULSE_S) :]} == {20.0}


@pytest.mark.parametrize("length_s", [0.1, 0.7, 1.3, 4.0])
def test_a_loop_of_short_sleeps_never_looks_like_a_long_one(
    tmp_path: Path, length_s: float
) -> None:
    said = Sleeper(tmp_path / "ring", [length_s] * round(100 / length_s)).go(90)
    assert max(each for each, _ in said) <= max(AFTER_S, length_s) + AGAIN_S + 2 * PULSE_S


@pytest.mark.parametrize("call", [3, 4], ids=["it waits for the GIL", "it is not run"])
def test_a_thread_that_wakes_late_sleeps_until_it_does_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Else it would be taken for stuck at the very end of its sleep."""
    sleeper = Sleeper(tmp_path / "ring", [20.0])

    def read() -> tuple[int, float | None]:
        slept = call == 4 or sleeper.now_s < sleeper.ends_s[0]
        return (4, sleeper.ends_s[0]) if slept else (call, None)

    monkeypatch.setattr(sleeper.calls, "_read", read)
    said = sleeper.go(20 + LATE_S - PULSE_S)[round((AFTER_S + AGAIN_S) / PULSE_S) :]
    assert {length_s for length_s, _ in said} == {20.0}
    assert min(left_s for _, left_s in said) > 0.0
    assert {left_s for _, left_s in sleeper.go(AFTER_S)[2:]} == {0.0}


def test_where_no_stack_is_to_be_had_what_was_said_of_a_sleep_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(RingWriter(tmp_path / "ring", rank=0, epoch=1))
    reader = RingReader(tmp_path / "ring")
    monkeypatch.setattr(recorder._calls, "_read", lambda: (4, 70.0))
    monkeypatch.setattr(recorder._frames, "sample", lambda now_s: now_s < 60.0)
    recorder._frames.since_s = 50.0
    for now_s in (51.0, 53.0):
        recorder._look(now_s)
    seen = reader.read()
    assert (seen.call, seen.sleep_s, seen.sleep_left_s) == ("sleeps", 20.0, 17.0)
    recorder._look(60.0)
    seen = reader.read()
    assert (seen.call, seen.sleep_s, seen.sleep_left_s) == ("", 0.0, 0.0)
    assert "stack" in seen.partial


def test_where_a_machines_numbers_are_not_known_nothing_is_said(tmp_path: Path) -> None:
    sleeper = Sleeper(tmp_path / "ring", [20.0], machine="riscv64")
    assert set(sleeper.go(19)) == {(0.0, 0.0)}
    assert sleeper.looks == 0


def test_what_is_no_sleep_or_cannot_be_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(RingWriter(tmp_path / "ring", rank=0, epoch=1), "aarch64")
    for said, found in {
        "running\n": (0, None),
        "-1 0x7ffd 0x7fe4\n": (0, None),
        "115 0x1 0x1 0x0 0x0 0x0 0x0 0x7ffd 0x7fe4\n": (0, None),  # nothing is mapped there
        "115 0x1 0x1 0xffffffffffffffff 0x0 0x0 0x0 0x7ffd 0x7fe4\n": (0, None),
        "115 0x1 0x0 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7fe4\n": (4, None),  # no absolute time
        "260 0x2fd3 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7fe4\n": (1, None),
        "17 0x1 0x1 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7fe4\n": (0, None),
    }.items():
        monkeypatch.setattr(calls, "_said", lambda said=said: said)
        assert calls._read() == found, said
    monkeypatch.undo()
    calls._path = "/proc/self/task/0/syscall"
    assert calls._read() == (0, None)

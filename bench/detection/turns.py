"""One turn: start a system, have one rank hold the job up, see when that is told and acted on.

Called by `benchmark`. All is seen from outside: named is the moment when the user's terminal says
which rank it is, acted on the one when the first of the other ranks has been ended.
"""

import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.bench.figures import Try
from holdfast.bench.restart.marks import Marks, pid_writing, wait
from holdfast.bench.restart.systems import Holdfast, System
from holdfast.bench.restart.turns import LAUNCH_WITHIN_S, WARM_STEPS, NotStarted

SCRIPT = Path(__file__).with_name("script.py")
ACTED_WITHIN_S = 60.0
NAMES = re.compile(
    r"^holdfast +(?:rank (?P<held>\d+) .*(?:holds the job up|called)"
    r"|\S+ waits for [\d.]+ s: rank (?P<waited>\d+) .*|.*called .*)",
    re.MULTILINE,
)
"""The lines in which somebody is named, or two of whom nobody knows which."""


class Fault(NamedTuple):
    """What one rank does; `kind` is the script's word for it, "" for a signal from outside."""

    title: str
    kind: str = ""


FAULTS: Mapping[str, Fault] = {
    "stopped": Fault("rank stopped (SIGSTOP)"),
    "gil": Fault("rank holds the GIL", "gil"),
    "spins": Fault("rank spins in Python", "spin"),
    "other-collective": Fault("rank in another collective", "other"),
    "skipped-collective": Fault("rank skips a collective", "skip"),
}


def held_up(
    system: System, folder: Path, *, fault: Fault, rank: int, words: tuple[str, ...] = ()
) -> Iterator[Try]:
    """Launch; then the fault in one rank. `words`: more of the script's."""
    marks = Marks(folder)
    with system.script(folder, SCRIPT, str(folder), *words):
        _warm(marks)
        pids = [pid_writing(path) for path in marks.paths]
        hurt_ns = _hurt(folder, pids, fault, rank)
        peers = [pid for each, pid in enumerate(pids) if each != rank]
        yield from _seen(system, folder, fault, rank, peers, hurt_ns)


def _warm(marks: Marks) -> None:
    def warm() -> bool:
        marks.read()
        return marks.common() >= WARM_STEPS

    if not wait(warm, within_s=LAUNCH_WITHIN_S):
        raise NotStarted(f"no step {WARM_STEPS} within {LAUNCH_WITHIN_S:g} s of the launch")


def _hurt(folder: Path, pids: list[int], fault: Fault, rank: int) -> int:
    """Do it; when it was done, in monotonic nanoseconds."""
    if not fault.kind:
        os.kill(pids[rank], signal.SIGSTOP)
        return time.monotonic_ns()
    order, told = folder / "fault.new", folder / "hurt"
    order.write_text(f"{fault.kind} {rank}")
    order.replace(folder / "fault")  # whole, whenever a rank looks
    if not wait(lambda: told.exists() and bool(told.read_text()), within_s=ACTED_WITHIN_S):
        raise NotStarted(f"rank {rank} did not come to its fault")
    return int(told.read_text())


def _seen(
    system: System, folder: Path, fault: Fault, rank: int, peers: list[int], hurt_ns: int
) -> Iterator[Try]:
    """What is told, and the first end of a peer; what is told after that is not waited for."""
    named_s: float | None = None
    who: str | None = None

    def over() -> bool:
        nonlocal named_s, who
        if named_s is None and (found := _named(system, folder)) is not None:
            named_s, who = (time.monotonic_ns() - hurt_ns) / 1e9, who_of(found)
        return not all(map(_runs, peers))

    acted = wait(over, within_s=ACTED_WITHIN_S)
    acted_s = (time.monotonic_ns() - hurt_ns) / 1e9 if acted else None
    late = f"not within {ACTED_WITHIN_S:g} s"
    note = "" if acted else late
    yield Try(system=system.name, figure=f"{fault.title}: acted on", value=acted_s, note=note)
    if isinstance(system, Holdfast):
        note = "" if named_s is not None else "not before it was acted on"
        yield Try(system=system.name, figure=f"{fault.title}: named", value=named_s, note=note)
        right = f"{fault.title}: right rank named"
        yield Try(system=system.name, figure=right, unit="share", value=who == str(rank))


def _named(system: System, folder: Path) -> re.Match[str] | None:
    return NAMES.search(system.log(folder)) if isinstance(system, Holdfast) else None


def who_of(found: re.Match[str]) -> str | None:
    """The rank that a line names."""
    return found["held"] or found["waited"]


def _runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"

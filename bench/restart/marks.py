"""Progress as seen from outside: the marks that the script's ranks leave, and who they are.

Called by the turns.
"""

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

RANKS = 4
LOOK_S = 0.005


class Mark(NamedTuple):
    """A step that one rank completed, at monotonic nanoseconds, in one life of its process."""

    step: int
    at_ns: int
    life: int


class Marks:
    """All marks below a folder, read on as they come."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"marks.rank_{rank}" for rank in range(RANKS)]
        self.by_rank: list[list[Mark]] = [[] for _ in range(RANKS)]
        self._offsets = [0] * RANKS

    def read(self) -> None:
        """Take in what was appended since the last time; half a line waits for its rest."""
        for rank, path in enumerate(self.paths):
            if path.exists():
                with path.open("rb") as file:
                    file.seek(self._offsets[rank])
                    whole, newline, _ = file.read().rpartition(b"\n")
                self._offsets[rank] += len(whole + newline)
                lines = whole.split(b"\n") if newline else []
                self.by_rank[rank] += [Mark(*map(int, line.split())) for line in lines]

    def reached(self, lives: frozenset[int] | None = None) -> int:
        """The highest step that any rank (of these lives) completed, 0 before the first."""
        return max((mark.step for mark in self._all() if _in(mark, lives)), default=0)

    def common(self) -> int:
        """The highest step that all ranks completed."""
        return min(max((mark.step for mark in marks), default=0) for marks in self.by_rank)

    def lives(self) -> frozenset[int]:
        return frozenset(mark.life for mark in self._all())

    def all_beyond_ns(self, step: int, *, without: frozenset[int] = frozenset()) -> int | None:
        """When the last rank completed its first step above `step` in a life not in `without`."""
        firsts = [
            min((m.at_ns for m in marks if m.step > step and m.life not in without), default=None)
            for marks in self.by_rank
        ]
        known = [at_ns for at_ns in firsts if at_ns is not None]
        return max(known) if len(known) == RANKS else None

    def repeated(self) -> int:
        """Steps that some rank completed more than once."""
        return max(len(marks) - len({mark.step for mark in marks}) for marks in self.by_rank)

    def longest_pause_s(self, since_ns: int) -> float:
        """The longest time between two steps of rank 0 of which the second ended after then."""
        stamps = [mark.at_ns for mark in self.by_rank[0]]
        pairs = pairwise(stamps)
        return max((b - a for a, b in pairs if b >= since_ns), default=0) / 1e9

    def _all(self) -> list[Mark]:
        return [mark for marks in self.by_rank for mark in marks]


def _in(mark: Mark, lives: frozenset[int] | None) -> bool:
    return lives is None or mark.life in lives


def pid_writing(path: Path) -> int:
    """The process that has `path` open for writing. Raises `LookupError` if there is none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _writes(entry, str(path)):
            return int(entry.name)
    raise LookupError(f"no process writes {path}")


def _writes(process: Path, path: str) -> bool:
    try:
        names = [fd.name for fd in (process / "fd").iterdir()]
    except OSError:
        return False  # it has ended, or is not ours to look at
    return any(_open_for_writing(process, name, path) for name in names)


def _open_for_writing(process: Path, fd: str, path: str) -> bool:
    try:
        if os.readlink(process / "fd" / fd) != path:
            return False
        info = (process / "fdinfo" / fd).read_text()
    except OSError:
        return False  # it was closed meanwhile
    flags = int(info.split("flags:")[1].split()[0], 8)
    return flags & os.O_ACCMODE != os.O_RDONLY


def wait(fact: Callable[[], bool], *, within_s: float) -> bool:
    """Whether `fact` came true in time."""
    deadline_s = time.monotonic() + within_s
    while not fact():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(LOOK_S)
    return True

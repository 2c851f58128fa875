"""A file with a line a run, which a campaign goes on where it ends.

Called by `chaos.main`, which plays what is due, and by `chaos.report`. A line is written whole, and
one that was torn by a kill is dropped: its run is played again.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import msgspec

from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.score import Score, Skipped


class NoCampaign(Exception):
    """The file is none of a campaign, or cannot be had; the message says which line, and why."""


class Due(NamedTuple):
    """A run that is not played yet: its scenario, and which of its runs it is, from 1."""

    scenario: Scenario
    run: int


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file. With the same seed, steps and number a run has the same victim."""

    number: int
    run: int
    seed: int
    steps: int
    took_s: float = 0.0
    """By the clock on the wall, cluster and all."""
    score: Score | None = None
    skipped: Skipped | None = None

    @property
    def fault(self) -> str:
        told = self.score or self.skipped
        return told.fault if told else ""


def due(scenarios: Sequence[Scenario], runs: int, played: Iterable[Played]) -> list[Due]:
    """Runs that are left. All scenarios once, then all once more: what is cut short has all."""
    done = {(each.fault, each.run) for each in played}
    return [
        Due(scenario, run)
        for run in range(1, runs + 1)
        for scenario in scenarios
        if (scenario.name, run) not in done
    ]


def line_of(
    due: Due, said: Score | Skipped, *, seed: int, steps: int, took_s: float = 0.0
) -> Played:
    """As it is written down. Pure."""
    number, rounded_s = due.scenario.number, round(took_s, 1)
    line = Played(number=number, run=due.run, seed=seed, steps=steps, took_s=rounded_s)
    field = "score" if isinstance(said, Score) else "skipped"
    return msgspec.structs.replace(line, **{field: said})


def read(file: Path) -> tuple[list[Played], int]:
    """All whole lines, and how many bytes of a torn one follow them. Raises `NoCampaign`."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise NoCampaign(f"cannot read {file}: {error.strerror}") from error
    whole, _, torn = content.rpartition(b"\n")
    return list(_lines(file, whole)), len(torn)


def _lines(file: Path, whole: bytes) -> Iterator[Played]:
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=Played)
        except msgspec.MsgspecError as error:
            raise NoCampaign(f"{file}, line {number}, is no run of chaos: {error}") from error


def _opened(file: Path) -> BinaryIO:
    """To be appended to. Raises `NoCampaign`."""
    try:
        return file.open("ab")
    except OSError as error:
        raise NoCampaign(f"cannot write {file}: {error.strerror}") from error


def _lock(opened: BinaryIO, file: Path) -> None:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise NoCampaign(f"another campaign goes on in {file}") from error


class Ledger:
    """The file, open to be appended to by this one alone, or none. `torn`: bytes that were dropped
    from its end."""

    def __init__(self, file: Path | None) -> None:
        """Raises `NoCampaign`."""
        self.played, self.torn = list[Played](), 0
        self._file: BinaryIO | None = None
        with ExitStack() as up:
            if file:
                self._file = up.enter_context(_opened(file))
                _lock(self._file, file)
                self.played, self.torn = read(file)
                self._file.truncate(self._file.seek(0, os.SEEK_END) - self.torn)
            self._up = up.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._up.close()

    def add(self, line: Played) -> None:
        """On the disk when it returns: what was paid for is not played again."""
        if self._file:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

"""The analysis benchmark: from the progress of all ranks to who holds them up. Pure but for the
clock of its own process; called by `bench.main`.

Each try is of a new job of a layout, one of whose ranks, drawn by the round, has not entered what
its peers wait in.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from holdfast.bench.figures import Try
from holdfast.protocol.messages import GroupProgress, RankProgress
from holdfast.telemetry.analysis.hang import culprit

RANKS = 12_288
"""The largest job of MegaScale (NSDI'24, 6.1)."""
TRIES = 5
"""Of each layout a round."""


class Layout(NamedTuple):
    """How ranks are cut into groups: neighbours are of one tensor-parallel group."""

    tensor: int
    pipeline: int

    def groups(self, rank: int, ranks: int) -> Iterator[tuple[int, ...]]:
        """Of a rank: with its tensor-parallel peers, and with those of its place in each copy."""
        copy = self.tensor * self.pipeline
        if self.tensor > 1:
            first = rank - rank % self.tensor
            yield tuple(range(first, first + self.tensor))
        yield tuple(range(rank % copy, ranks, copy))


LAYOUTS: Mapping[str, Layout] = {
    "one group of all": Layout(1, 1),
    "tp 8": Layout(8, 1),
    "tp 8, pp 12": Layout(8, 12),
}


def measure(
    rounds: int, take: Callable[[Try], None], say: Callable[[str], None], *, ranks: int = RANKS
) -> None:
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: {ranks:,} ranks")
        for name, layout in LAYOUTS.items():
            bad = (7_919 * (number + 1)) % ranks
            job = held_up(layout, ranks, bad)
            for _ in range(TRIES):
                cost_ms, found = _judged(job)
                take(Try(system="holdfast", figure=f"verdict, {name}", unit="ms", value=cost_ms))
                right = f"right rank named, {name}"
                take(Try(system="holdfast", figure=right, unit="share", value=found == bad))


def _judged(job: Mapping[int, RankProgress]) -> tuple[float, int | None]:
    """Milliseconds of CPU, and who was named."""
    began_s = time.process_time()
    verdict = culprit(job)
    return 1e3 * (time.process_time() - began_s), verdict.rank


def held_up(layout: Layout, ranks: int, bad: int) -> dict[int, RankProgress]:
    """All ranks wait in their last group's collective 9, but for one that has done 8 of them."""
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    job: dict[int, RankProgress] = {}
    for rank in range(ranks):
        groups = [known.setdefault(each, each) for each in layout.groups(rank, ranks)]
        *done, last = [_group(members) for members in groups]
        behind = rank == bad
        waits = msgspec.structs.replace(last, enqueued=8 if behind else 9, done=8)
        told = (*done, waits)
        job[rank] = RankProgress(rank=rank, epoch=1, hooks=True, groups=told, waiting=not behind)
    return job


def _group(members: tuple[int, ...]) -> GroupProgress:
    return GroupProgress(
        members=hash(members), kind="all_reduce", enqueued=900, done=900, ranks=members
    )

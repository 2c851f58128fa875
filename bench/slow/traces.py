"""Traces: what each heartbeat told of each rank's clocks, as lines of JSON; and made longer. Pure.

A line is [heard_s, slow rank or -1, percent, [rank's numbers in the order of FIELDS, …]].
"""

import json
import lzma
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.protocol.messages import RankProgress

FIELDS = ("step", "stepped_s", "ran_s", "waited_s", "paused_s", "delayed_s", "throttled_s")
BLOCK = 40
"""Heartbeats that a block of the bootstrap has: 20 s, longer than what one disturbance lasts."""

Row = tuple[float, ...]


class Beat(NamedTuple):
    """What all ranks told at one time."""

    heard_s: float
    slow: int
    percent: float
    ranks: tuple[Row, ...]


def row(seen: RankProgress) -> Row:
    return tuple(float(getattr(seen, field)) for field in FIELDS)


def progress(rank: int, numbers: Row) -> RankProgress:
    fields: dict[str, Any] = dict(zip(FIELDS, numbers, strict=True))
    step, pid = int(fields.pop("step")), rank + 1
    return RankProgress(rank=rank, epoch=1, job="job", pid=pid, hooks=True, step=step, **fields)


def read(path: Path) -> list[Beat]:
    """Of a file as it was written, or packed by xz."""
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    lines = map(json.loads, text.splitlines())
    return [Beat(at, slow, percent, tuple(map(tuple, rows))) for at, slow, percent, rows in lines]


def bootstrapped(beats: list[Beat], steps: int, chance: random.Random) -> Iterator[Beat]:
    """A longer trace, of blocks drawn from this one with all their ranks, joined end to end."""
    growth = list(pairwise(beats))
    now = beats[0]
    first = now.ranks[0][0]
    yield now
    while now.ranks[0][0] - first < steps:
        at = chance.randrange(len(growth) - BLOCK)
        for before, after in growth[at : at + BLOCK]:
            ranks = tuple(map(_grown, now.ranks, before.ranks, after.ranks))
            now = Beat(now.heard_s + after.heard_s - before.heard_s, -1, 0.0, ranks)
            yield now


def _grown(now: Row, before: Row, after: Row) -> Row:
    return tuple(value + new - old for value, old, new in zip(now, before, after, strict=True))


def slowed(beats: Iterator[Beat], rank: int, percent: float, from_step: int) -> Iterator[Beat]:
    """The same, but that `rank` computes for longer: it waits less, and where that is not enough
    all steps are longer and its peers wait for it."""
    extra: list[list[float]] = []
    before: Beat | None = None
    for beat in beats:
        extra = extra or [[0.0] * len(FIELDS) for _ in beat.ranks]
        if before is not None and before.ranks[rank][0] >= from_step:
            _hold_up(extra, before, beat, rank, percent / 100)
        before = beat
        ranks = tuple(map(_sum, beat.ranks, extra))
        slow = beat.ranks[rank][0] >= from_step
        yield Beat(beat.heard_s, rank if slow else -1, percent if slow else 0.0, ranks)


def _hold_up(extra: list[list[float]], before: Beat, beat: Beat, rank: int, share: float) -> None:
    _, stepped, ran, waited, *_ = FIELDS_AT
    growth = [
        after[waited] - old[waited] for old, after in zip(before.ranks, beat.ranks, strict=True)
    ]
    more_s = share * (beat.ranks[rank][ran] - before.ranks[rank][ran])
    spared_s = min(more_s, max(0.0, growth[rank] - min(growth)))
    extra[rank][ran] += more_s
    extra[rank][waited] -= spared_s
    for number, clocks in enumerate(extra):
        clocks[stepped] += more_s - spared_s
        clocks[waited] += more_s - spared_s if number != rank else 0.0


FIELDS_AT = range(len(FIELDS))


def _sum(numbers: Row, more: list[float]) -> Row:
    return tuple(map(float.__add__, numbers, more))

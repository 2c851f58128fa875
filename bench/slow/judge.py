"""Plays traces into the detector: what healthy ranks come to, and when slow ones are told."""

import json
import random
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from holdfast.bench.slow import traces
from holdfast.bench.slow.traces import Beat
from holdfast.driver.watch import Expectation, slow
from holdfast.driver.watch.jobs import RankSeen
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.messages import Heartbeat, Seat

PERCENTS = (5, 10, 20)
SETTLES, SETTLES_BEATS = 400, 60
"""Steps, and heartbeats, before a rank becomes slow: what is usual is known by then."""
WAITED_FOR = 400
"""Steps that a slow rank is given to be told."""

MANY = 20
"""Of which nine tenths can be told."""


def judge(quiet: Path, busy: Path, slow: Path | None, steps: int, runs: int) -> None:
    chance = random.Random(17)
    calm, crowd = traces.read(quiet), traces.read(busy)
    cpu, own = _highest(calm, steps, chance)
    _say("limit from", quiet, calm, steps=steps, highest_cpu=round(cpu, 1), own=round(own, 1))
    found = list(told(traces.bootstrapped(crowd, steps, chance)))
    accused = [finding.summary for _, finding in found if finding.kind is Kind.SLOW]
    _say("healthy", busy, crowd, steps=steps, accused=len(accused), who=accused[:4])
    for percent in PERCENTS:
        delays = [_delay(crowd, percent, chance) for _ in range(runs)]
        innocent = sum(others for _, others in delays)
        spread = _spread([delay for delay, _ in delays])
        _say(f"{percent} % slower", busy, crowd, **spread, innocent=innocent)
    if slow is not None:
        real = traces.read(slow)
        for size, episodes in _episodes(real).items():
            _say(f"{size:g} % slower, real", slow, real, **_spread(episodes))


def told(beats: Iterable[Beat], limit: float = slow.LIMIT) -> Iterator[tuple[Beat, Finding]]:
    """What the detector finds in a trace, each rank on a node of its own."""
    for beat, _, found in _played(beats, limit):
        yield from ((beat, each) for each in found)


def _played(
    beats: Iterable[Beat], limit: float
) -> Iterator[tuple[Beat, slow.Slow, tuple[Finding, ...]]]:
    state, known = slow.Slow(epoch=1), dict[int, RankSeen]()
    expected: Expectation | None = None
    for number, beat in enumerate(beats):
        expected = expected or _expected(len(beat.ranks))
        ranks = tuple(traces.progress(*each) for each in enumerate(beat.ranks))
        heard = Heartbeat(node="", incarnation="", sequence=number, uptime_s=0.0, ranks=ranks)
        state = slow.fold(state, heard, known, expected)
        for seen in ranks:
            known[seen.rank] = RankSeen(progress=seen, heard_s=beat.heard_s, uptime_s=0.0)
        found = slow.judge(state, known, expected, 0.0, beat.heard_s, limit=limit)
        yield beat, state, found


def _expected(count: int) -> Expectation:
    seats = tuple(
        Seat(rank=rank, local_rank=0, node=f"node-{rank}", address="") for rank in range(count)
    )
    return Expectation(job="job", epoch=1, seats=seats)


def _highest(beats: list[Beat], steps: int, chance: random.Random) -> tuple[float, float]:
    """The highest sums that any healthy rank comes to, of CPU time and of its own part."""
    cpu = own = 0.0
    for _, state, _ in _played(traces.bootstrapped(beats, steps, chance), float("inf")):
        for each in state.ranks.values():
            cpu, own = max(cpu, each.usual_cpu.sum), max(own, each.usual_own.sum)
    return cpu, own


def _delay(beats: list[Beat], percent: float, chance: random.Random) -> tuple[float | None, int]:
    """Steps from the one at which a rank becomes slow to when it is told (None: it is not), and
    how often another rank was told by then."""
    rank, innocent = chance.randrange(len(beats[0].ranks)), 0
    first, last = beats[0].ranks[rank][0], beats[-1].ranks[rank][0]
    settles = max(SETTLES, int(SETTLES_BEATS * (last - first) / len(beats)))
    begins = int(first) + settles
    trace = traces.bootstrapped(beats, settles + WAITED_FOR, chance)
    for beat, finding in told(traces.slowed(trace, rank, percent, begins)):
        if finding.kind is Kind.SLOW and finding.rank == rank == beat.slow:
            return beat.ranks[rank][0] - begins, innocent
        innocent += finding.kind is Kind.SLOW
    return None, innocent


def _episodes(beats: list[Beat]) -> dict[float, list[float | None]]:
    """The same of a trace in which ranks really were slow at times, by percent."""
    found = [(beat, finding.rank) for beat, finding in told(beats) if finding.kind is Kind.SLOW]
    delays: dict[float, list[float | None]] = {}
    for (rank, percent), group in groupby(beats, lambda beat: (beat.slow, beat.percent)):
        episode = list(group)
        if rank >= 0:
            at = next((beat for beat, who in found if who == rank and beat in episode), None)
            delay = None if at is None else at.ranks[rank][0] - episode[0].ranks[rank][0]
            delays.setdefault(percent, []).append(delay)
    return delays


def _spread(delays: list[float | None]) -> dict[str, Any]:
    known = sorted(each for each in delays if each is not None)
    many = len(known) >= MANY
    return {
        "runs": len(delays),
        "told": len(known),
        "median_steps": median(known) if known else None,
        "p90_steps": round(quantiles(known, n=10)[8]) if many else None,
    }


def _say(what: str, path: Path, beats: list[Beat], **figures: Any) -> None:
    """With what the trace is: its steps, and the mean of one."""
    steps = beats[-1].ranks[0][0] - beats[0].ranks[0][0]
    step_ms = 1e3 * (beats[-1].heard_s - beats[0].heard_s) / steps
    trace = {"trace": path.name, "ranks": len(beats[0].ranks), "step_ms": round(step_ms)}
    print(json.dumps({"what": what, **trace, **figures}), flush=True)

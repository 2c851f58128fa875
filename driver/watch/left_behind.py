"""A rank that stands while its peers go on, and nobody waits for it. Pure.

In a job without collectives (workers of their own, a rollout) its steps are simply missing, and no
standstill shows. It is a report, taken back when it moves; nothing is done while others go on. Who
works, sleeps, waits for a peer or never kept their pace is not told of, nor a pause shorter than
twice what ended by itself at that line.
"""

from collections.abc import Iterator, Mapping
from statistics import median

import msgspec

from holdfast.driver.watch import jobs, pauses
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.driver.watch.pauses import FACTOR, Lines
from holdfast.driver.watch.standstill_manner import (
    GONE,
    NO_CPU,
    STOPPED,
    Cpu,
    Manner,
    asleep,
    manner,
    moves,
    stuck_limit_s,
    told,
)
from holdfast.protocol.faults import Finding, Kind, Pause, Weight
from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.analysis.hang import in_collective, stopped_children

LOOK_AGAIN_S = 2.0
"""A look goes through all ranks: 8 ms of 12,288."""
FLOORS = 2
"""Floors, or times that it may be stuck, after which it is told. Where all wait for a rank that is
one; here nobody loses time by a later word."""
STEPS = 20
"""Steps that most of its peers have done since: fewer may be chance."""
KEPT_PACE = 0.5
"""Of the steps that most ranks had done when it stopped: ranks of other roles step at other times.
Not of what they have done since: while the floor passes that may be more than all before."""
LEAST_STEPS = 8
PEERS = 16
"""Whose steps are counted, evenly spread: there may be 100,000."""


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that stands: its step, its line, and how far its peers were when that was seen."""

    step: int
    line: str
    kept_pace: bool
    peers: Mapping[int, int]
    for_s: float = 0.0


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job."""

    epoch: int = -1
    looked_s: float = float("-inf")
    paces: tuple[tuple[float, float], ...] = ()  # when looked, and the step at the median then
    standing: dict[int, Behind] = {}
    said: frozenset[int] = frozenset()
    paused: Lines = {}  # what ended by itself, by line
    earlier: bool = False  # an attempt, or a driver, before told of one, and nobody took it back


class LeftBehind(Detector):
    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._texts: dict[str, dict[int, str]] = {}

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        known = self._known.get(name, Known(earlier=Kind.LEFT_BEHIND in context.recalled_of(name)))
        self._known[name], findings = judge(known, job, context.now)
        for each in findings:
            if each.rank is not None and each.kind is Kind.LEFT_BEHIND:
                self._texts.setdefault(name, {})[each.rank] = each.summary
        return findings

    def verdicts(self, job: str) -> Mapping[int, str]:
        known, texts = self._known.get(job), self._texts.get(job, {})
        return {rank: texts[rank] for rank in known.said if rank in texts} if known else {}

    def drop(self, job: str) -> None:
        self._known.pop(job, None)
        self._texts.pop(job, None)


def judge(known: Known, job: JobSeen, now: float) -> tuple[Known, Findings]:
    """At most one finding for each time that a rank stands, and one when none does any more."""
    expected = job.expected
    if known.epoch != expected.epoch:
        earlier = known.earlier or bool(known.said)
        known = Known(epoch=expected.epoch, paused=known.paused, earlier=earlier)
    if now - known.looked_s < LOOK_AGAIN_S:
        return known, ()
    ranks = {rank: seen for rank, seen in jobs.fresh(job, now).items() if seen.hooks}
    known = _looked(known, ranks, expected.hang_floor_s, now)
    cpu = jobs.cpu(job, now) if known.standing else {}
    found = {
        rank: finding
        for rank, behind in known.standing.items()
        if rank in ranks and rank not in known.said
        for finding in _told(known, behind, ranks, cpu.get(rank, NO_CPU), ranks[rank], expected)
    }
    known = msgspec.structs.replace(known, said=known.said | found.keys())
    known, over = _taken_back(known, ranks, expected)
    return known, (*found.values(), *over)


def _looked(known: Known, ranks: Mapping[int, RankProgress], floor_s: float, now: float) -> Known:
    """Who stands now, since when, and what was a pause of who goes on."""
    paused, standing = known.paused, dict(known.standing)
    for rank, behind in known.standing.items():
        if rank in ranks and (ranks[rank].step > behind.step or ranks[rank].still_s < floor_s):
            del standing[rank]
            if behind.line:
                paused = pauses.longest(paused, {behind.line: Pause(lasted_s=behind.for_s)})
    paces = _paces(known, ranks, floor_s, now)
    for rank, seen in ranks.items():
        if seen.still_s < floor_s or seen.process in GONE:
            continue
        behind = standing.get(rank) or _began(seen, ranks, _pace(paces, now - seen.still_s))
        standing[rank] = msgspec.structs.replace(behind, for_s=max(behind.for_s, seen.still_s))
    return msgspec.structs.replace(
        known, looked_s=now, paces=paces, standing=standing, paused=paused
    )


def _paces(
    known: Known, ranks: Mapping[int, RankProgress], floor_s: float, now: float
) -> tuple[tuple[float, float], ...]:
    """Of the looks since before the floor: a rank that stands is looked at first after it."""
    since_s = now - floor_s - 2 * LOOK_AGAIN_S
    kept = tuple(each for each in known.paces if each[0] >= since_s)
    return (*kept, (now, median([seen.step for seen in ranks.values()] or [0])))


def _pace(paces: tuple[tuple[float, float], ...], stopped_s: float) -> float:
    """Where most ranks were when one stopped, or at the first look after it."""
    before = [step for looked_s, step in paces if looked_s <= stopped_s]
    return before[-1] if before else paces[0][1]


def _began(seen: RankProgress, ranks: Mapping[int, RankProgress], pace: float) -> Behind:
    others = [rank for rank in ranks if rank != seen.rank]
    some = others[:: -(-len(others) // PEERS) or 1]
    peers = {rank: ranks[rank].step for rank in some}
    least = max(LEAST_STEPS, KEPT_PACE * pace)
    line = "" if seen.process in STOPPED else seen.frame
    return Behind(step=seen.step, line=line, kept_pace=seen.step >= least, peers=peers)


def _told(
    known: Known,
    behind: Behind,
    ranks: Mapping[int, RankProgress],
    cpu: Cpu,
    seen: RankProgress,
    expected: Expectation,
) -> Iterator[Finding]:
    steps = _steps_of_most(behind, ranks)
    limit_s = _limit_s(seen, cpu, expected)
    if limit_s is None or not behind.kept_pace or steps < STEPS:
        return
    limit_s = max(limit_s, FACTOR * known.paused.get(behind.line, pauses.NONE).lasted_s)
    if seen.still_s > limit_s:
        yield _finding(seen, cpu, steps, expected)


def _steps_of_most(behind: Behind, ranks: Mapping[int, RankProgress]) -> int:
    """That half of its peers have done since; 0 where they stand, too, or are not heard of."""
    more = [ranks[rank].step - step for rank, step in behind.peers.items() if rank in ranks]
    return int(median(more)) if 2 * len(more) > len(behind.peers) else 0


def _limit_s(seen: RankProgress, cpu: Cpu, expected: Expectation) -> float | None:
    """After which it is told that it stands; None where it waits for peers, sleeps, or works."""
    if seen.process not in STOPPED and in_collective(seen):
        return None
    found = manner(seen, cpu)
    if found is Manner.DEAD:
        works = seen.process not in STOPPED and (cpu.busy or moves(seen))
        return None if works else FLOORS * expected.hang_floor_s
    rest_s = expected.pause_max_s - seen.still_s
    if found is Manner.STUCK and not asleep(seen, expected.stuck_s, rest_s):
        return FLOORS * stuck_limit_s(seen, expected.stuck_s)
    return None


def _finding(seen: RankProgress, cpu: Cpu, steps: int, expected: Expectation) -> Finding:
    node = expected.node_of()[seen.rank]
    at = f" at {seen.frame}" if seen.frame else ""
    texts = [told(seen, manner(seen, cpu), cpu), *stopped_children(seen)]
    still_s = round(seen.still_s, 1)
    return Finding(
        kind=Kind.LEFT_BEHIND,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=seen.rank,
        step=seen.step,
        stalled_s=seen.still_s,
        summary=(
            f"rank {seen.rank} on {node} stands{at} for {seen.still_s:.0f} s, while its peers have "
            f"done {steps:,} steps more; nothing is done about it while they go on"
        ),
        evidence=tuple(evidence(f"daemon of {node}", text, still_s=still_s) for text in texts),
    )


def _taken_back(
    known: Known, ranks: Mapping[int, RankProgress], expected: Expectation
) -> tuple[Known, Findings]:
    """Once none of them stands any more; of an earlier attempt once all ranks have gone on."""
    moved = known.said - known.standing.keys()
    said = known.said - moved
    settled = len(ranks) == len(expected.seats) and all(
        each.step >= LEAST_STEPS for each in ranks.values()
    )
    over = not said and (bool(moved) or (known.earlier and settled and not known.standing))
    known = msgspec.structs.replace(known, said=said, earlier=known.earlier and not over)
    return known, (_moves(min(moved, default=None), expected),) if over else ()


def _moves(rank: int | None, expected: Expectation) -> Finding:
    node = expected.node_of().get(rank) if rank is not None else None
    who = f"rank {rank} on {node}" if rank is not None else "each rank"
    return Finding(
        kind=Kind.MOVES_AGAIN,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=rank,
        summary=f"{who} of {expected.job} goes on again",
    )

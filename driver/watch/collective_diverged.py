"""Ranks of one group that were in different collectives at one number of it. Pure.

What a rank that stands still, or is gone, had enqueued last is laid beside what the others had. The
first number at which they differ names the odd one out: what it called cannot meet what the others
did, whoever of them waits or dies of that. It is user code; it is reported, and explains what
follows (faults.md, 5 and 6).
"""

from collections.abc import Mapping

import msgspec

from holdfast.driver.watch import jobs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, Ranks, evidence, goes_on
from holdfast.driver.watch.pace import Pace
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Collective, Heartbeat, RankProgress

UNCOUNTED = frozenset({"collectives", "groups full"})
"""What a rank lacks whose numbers are not those of its peers."""

KEPT = 64
"""Numbers that are kept of each group: those that ranks tell now, some way apart."""

FURTHER = {"step": 2, "collective": 32}
"""By how much a job goes on after it was said of it that its ranks never meet, before that was
wrong: one step may have been under way; of collectives, twice what a ring keeps."""

FIX = "Let all ranks of a group call the same collectives, in one order, with equal sizes."


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """`rank`: who differs from all others; None: of two, or of two halves, nobody can tell."""

    rank: int | None
    text: str
    members: int = 0  # hash of the group …
    number: int = 0  # … and of its collectives the one at which they differ


class Callers(msgspec.Struct):
    """How many ranks called one collective at one number, and the lowest of them."""

    count: int
    lowest: int


class Numbers(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of one group. Filled in place: thousands of ranks tell the same, heartbeat after
    heartbeat, and each of them costs the same however many there are."""

    told: dict[int, int] = {}  # by rank, the last number that it told of
    called: dict[int, dict[Collective, Callers]] = {}  # by number
    ranks: tuple[int, ...] = ()  # of the group, where one told its members


class Unlike(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job's epoch, by group (filled in place), and what came of it."""

    epoch: int = -1
    groups: dict[int, Numbers] = {}
    odd: Odd | None = None
    since: int | None = None  # what the job had done when that was found
    met: bool = False  # it went on all the same: what its ranks call may differ


class DivergedCollectives(Detector):
    def __init__(self) -> None:
        self._unlike: dict[str, Unlike] = {}  # by job

    def odd_of(self, expected: Expectation) -> Odd | None:
        """Who of this attempt is: another may be expected since, and its heartbeats not here."""
        known = self._unlike.get(expected.job, Unlike())
        return known.odd if known.epoch == expected.epoch else None

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        before = self._unlike.get(name, Unlike())
        self._unlike[name], findings = judge(before, beat, job.expected)
        return findings

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        name, (pace, unit) = job.expected.job, jobs.tempo(job)
        before = self._unlike.get(name, Unlike())
        self._unlike[name], findings = went_on(before, job.expected, pace, unit)
        return findings

    def drop(self, job: str) -> None:
        self._unlike.pop(job, None)


def judge(state: Unlike, beat: Heartbeat, expected: Expectation) -> tuple[Unlike, Findings]:
    """What one heartbeat adds. At most one finding an epoch."""
    if state.epoch != expected.epoch:
        state = Unlike(epoch=expected.epoch, groups={})
    if state.odd is not None or state.met:
        return state, ()
    for seen in beat.ranks:
        if seen.recent and _counts(seen, expected):
            odd = _told(state.groups, seen, len(expected.seats))
            if odd is not None:
                found = (_finding(odd, expected),)
                return msgspec.structs.replace(state, odd=odd), found
    return state, ()


def went_on(state: Unlike, expected: Expectation, pace: Pace, unit: str) -> tuple[Unlike, Findings]:
    """Who goes further did meet: then nothing is put down to the odd one, in the whole attempt."""
    if state.odd is None or state.epoch != expected.epoch:
        return state, ()
    if state.since is None:
        return msgspec.structs.replace(state, since=pace.step), ()
    if pace.step < state.since + FURTHER[unit]:
        return state, ()
    text = f"{expected.job} goes on, though {state.odd.text}"
    return msgspec.structs.replace(state, odd=None, met=True), (goes_on(expected, pace.step, text),)


def stand_s(odd: Odd | None, ranks: Ranks) -> float:
    """For how long those who differ have stood in what can never end: then it is no pause. 0 where
    one of them has done it, or is not there yet.
    """
    if odd is None or not all(_is_in(odd, seen) for seen in ranks.values()):
        return 0.0
    return min((seen.still_s for seen in ranks.values()), default=0.0)


def _is_in(odd: Odd, seen: RankProgress) -> bool:
    """Whether the rank has called it and it is not done; or it has no part. Of one that does not
    tell what is done, who pauses came through."""
    mine = (each for each in seen.groups if each.members == odd.members)
    untold = "done" in seen.partial
    return all(
        each.enqueued >= odd.number and (not seen.pause if untold else each.done < odd.number)
        for each in mine
    )


def _counts(seen: RankProgress, expected: Expectation) -> bool:
    mine = (seen.job, seen.epoch) == (expected.job, expected.epoch)
    return mine and not UNCOUNTED & set(seen.partial)


def _told(groups: dict[int, Numbers], seen: RankProgress, world_size: int) -> Odd | None:
    for group in seen.groups:
        if group.ranks:
            groups.setdefault(group.members, Numbers()).ranks = group.ranks
    for recent in seen.recent:
        numbers = groups.setdefault(recent.members, Numbers())
        since = numbers.told.get(seen.rank, 0)
        new = [each for each in recent.collectives if each.number > since]
        if new:
            _keep(numbers, seen.rank, new)
            if (odd := _compared(numbers, new, world_size)) is not None:
                return msgspec.structs.replace(odd, members=recent.members)
    return None


def _keep(numbers: Numbers, rank: int, new: list[Collective]) -> None:
    numbers.told[rank] = max(each.number for each in new)
    for each in new:
        callers = numbers.called.setdefault(each.number, {}).setdefault(each, Callers(0, rank))
        callers.count += 1
        callers.lowest = min(callers.lowest, rank)
    while len(numbers.called) > KEPT:
        del numbers.called[min(numbers.called)]


def _compared(numbers: Numbers, new: list[Collective], world_size: int) -> Odd | None:
    """The first of these numbers at which ranks that tell of it differ."""
    called = ((each.number, numbers.called.get(each.number, {})) for each in new)
    first = next(((number, callers) for number, callers in called if len(callers) > 1), None)
    return None if first is None else _odd(*first, numbers.ranks or tuple(range(world_size)))


def _odd(number: int, called: Mapping[Collective, Callers], members: tuple[int, ...]) -> Odd | None:
    """None while most have not told yet, and it might be the others who differ."""
    usual, unlike = sorted(called, key=lambda each: (-called[each].count, called[each].lowest))[:2]
    most, other = called[usual], called[unlike].lowest
    told = sum(callers.count for callers in called.values())
    place = f"as collective #{number} of group {list(members[:8])}"
    if told == most.count + 1 and most.count > 1 and 2 * most.count > len(members):
        text = f"rank {other} called {_differs(unlike, usual)} {place}"
        return Odd(rank=other, text=text, number=number)
    if told < len(members):
        return None
    if unlike.kind == usual.kind:
        text = f"ranks {most.lowest} and {other} called {usual.kind} of different sizes {place}"
    else:
        text = f"rank {most.lowest} called {usual.kind} and rank {other} {unlike.kind} {place}"
    return Odd(rank=None, text=text, number=number)


def _differs(mine: Collective, usual: Collective) -> str:
    if mine.kind == usual.kind:
        return f"{mine.kind} of another size than its peers"
    return f"{mine.kind} where its peers called {usual.kind}"


def _finding(odd: Odd, expected: Expectation) -> Finding:
    node = expected.node_of().get(odd.rank) if odd.rank is not None else None
    return Finding(
        kind=Kind.COLLECTIVE_MISMATCH,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=odd.rank,
        summary=f"{odd.text}: these never meet",
        evidence=(evidence("detector", odd.text),),
        fix=FIX,
    )

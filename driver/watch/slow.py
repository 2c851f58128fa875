"""A rank that holds its peers up: its own part of each step is longer than theirs. Pure.

Used by `Watch`. Ranks that go in step all take as long; what differs is how much of it each waits
for the others. What is left is its *own* part, with the CPU time in it. Both are compared with the
ranks of the same role, and with how they compared before: stages of a pipeline are no peers, and
who always had more to do holds nobody up anew. What lasts is told once, and taken back; a report.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import log

import msgspec

from holdfast.driver.watch import slow_usual, slow_words
from holdfast.driver.watch.jobs import RankSeen
from holdfast.driver.watch.model import NOTHING, Expectation, Findings, Recalled
from holdfast.driver.watch.slow_usual import LEARNED, Usual
from holdfast.driver.watch.slow_words import Cause, Clocks, Compared
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.messages import Heartbeat, RankProgress
from holdfast.protocol.topology import Axis

SKIPPED = 4
"""Samples at the start that are no rule: caches fill, memory is taken, code is compiled."""
LIMIT = 12.5
"""Of the sum of CPU time, from which on it is told: 1.1 times the highest of 100,000 healthy steps
(docs/detection.md)."""
OWN_LIMITS = 1.5
"""So many times that for the own part: what is rare and long comes in clusters by chance."""
DOUBT = 3.0
"""Of the sum, from which on the rank is compared in full."""
ALWAYS = log(1.5)
"""What it is longer since the attempt began, if that is to be told: less may be its share."""
MOST_PAUSED = 0.5
"""Share of the time that may be pauses: a save into memory after each step is one, too."""
SAMPLED = 64
"""Ranks of a role that the median is of, at most: there are roles of thousands."""
ASKED = 16
"""Peers that a rank in doubt is compared with in full."""
SETTLED = 64
"""Samples after which who is slow has been told, if it is to be told at all."""
CROWDED_S = 60.0
"""For so long others have to take the processors, until that is more than a busy moment."""


class Timed(msgspec.Struct, gc=False):
    """One rank: its newest sample, as log seconds a step, and what is usual. Written in place."""

    cpu: float
    own: float
    usual_cpu: Usual
    usual_own: Usual
    samples: int = 0
    fresh: bool = True

    @property
    def sum(self) -> float:
        """As one of CPU time."""
        return max(self.usual_cpu.sum, self.usual_own.sum / OWN_LIMITS)


class Doubt(msgspec.Struct, frozen=True):
    """When a rank's sum began to grow, and how far it and its peers were then."""

    since: Mapping[int, RankProgress]
    at_s: float


class Slow(msgspec.Struct, kw_only=True):
    """State of one job's epoch. Written in place."""

    epoch: int = -1
    ranks: dict[int, Timed] = {}
    roles: dict[object, list[int]] = {}
    always: set[int] = set()  # who is slower than its peers since the attempt began
    doubts: dict[int, Doubt] = {}
    clocks: dict[int, Clocks] = {}  # of those in doubt, and their peers: all would be too many
    told: dict[int, str] = {}  # ranks, with their nodes
    earlier: bool = False  # an attempt, or a driver, before told of one, and nobody took it back
    judged_s: float = float("-inf")


Seen = Mapping[int, RankSeen]


def fold(
    state: Slow, beat: Heartbeat, before: Seen, expected: Expectation, recalled: Recalled = NOTHING
) -> Slow:
    """Take in the steps that ranks have completed since the heartbeat before."""
    if state.epoch != expected.epoch:
        earlier = state.earlier or bool(state.told) or Kind.SLOW in recalled
        state = Slow(epoch=expected.epoch, earlier=earlier)
    for seen in beat.ranks:
        last = before.get(seen.rank)
        mine = (seen.job, seen.epoch) == (expected.job, state.epoch)
        if mine and seen.stepped_s and last is not None:
            _sampled(state, last.progress, seen, expected)
            if seen.rank in state.clocks:
                _clocked(state.clocks, seen)
    return state


def _clocked(clocks: dict[int, Clocks], seen: RankProgress) -> None:
    """Phases are told with heartbeats alone, and kept of nobody else."""
    known = clocks[seen.rank]
    if known.pid != seen.pid:
        since = dict(seen.wall_s)
        clocks[seen.rank] = Clocks(seen.pid, seen.step, since, seen.step, since)
    else:
        known.last_step, known.now = seen.step, dict(seen.wall_s)


def _sampled(state: Slow, last: RankProgress, seen: RankProgress, expected: Expectation) -> None:
    steps = seen.timed_step - last.timed_step
    if steps <= 0 or not last.stepped_s or last.pid != seen.pid or not _is_timed(last, seen):
        return
    took_s, paused_s = seen.stepped_s - last.stepped_s, seen.paused_s - last.paused_s
    if paused_s > MOST_PAUSED * took_s:  # with steps that are no rule around it
        return
    own_s = took_s - paused_s - slow_words.waited_s(last, seen)
    cpu_s = seen.ran_s - last.ran_s
    if own_s <= 0 or (cpu_s <= 0 and not seen.gpu_step):
        return
    cpu, own = 0.0 if seen.gpu_step else log(cpu_s / steps), log(own_s / steps)
    timed = state.ranks.get(seen.rank)
    if timed is None:
        state.ranks[seen.rank] = Timed(cpu, own, Usual(), Usual())
        state.roles.setdefault(role(seen, expected), []).append(seen.rank)
    else:
        timed.cpu, timed.own, timed.fresh = cpu, own, True


def _is_timed(last: RankProgress, seen: RankProgress) -> bool:
    """Whether its waits are known, and both by one clock. CPU time tells nothing of a GPU: a thread
    that waits for it spins."""
    if bool(last.gpu_step) != bool(seen.gpu_step):
        return False
    return seen.gpu_step > 0 or "done" not in seen.partial


def role(seen: RankProgress, expected: Expectation) -> object:
    """Ranks of one role have alike to do: a stage of the pipeline, as declared, or as its messages
    show that there are stages."""
    shape = expected.topology
    if shape.pp > 1 and shape.world_size == len(expected.seats):
        return shape.coordinates(seen.rank)[Axis.PP]
    return any(each.sends for each in seen.peers), any(each.receives for each in seen.peers)


def judge(
    state: Slow,
    seen: Seen,
    expected: Expectation,
    period_s: float,
    now: float,
    *,
    limit: float = LIMIT,
    hot: Collection[str] = (),
) -> Findings:
    """Compare what is new, once a period of heartbeats. `limit`: of the sum, to be told; `hot`:
    nodes with a GPU that is slowed by heat."""
    if now - state.judged_s < period_s or state.epoch != expected.epoch:
        return ()
    state.judged_s = now
    found: list[Finding] = []
    for role, ranks in state.roles.items():
        if len(ranks) > 1:
            _compare(state, ranks, limit, declared=role not in UNDECLARED)
            found += _told(state, ranks, seen, expected, now, limit, hot)
    return (*found, *_taken_back(state, expected))


UNDECLARED = ((True, True), (True, False), (False, True))
"""Roles of ranks that send to each other, in a job that does not say how it is parallel."""


def _compare(state: Slow, ranks: list[int], limit: float, *, declared: bool) -> None:
    fresh = [rank for rank in ranks if state.ranks[rank].fresh]
    if not fresh:
        return
    some = [state.ranks[rank] for rank in _some(ranks, SAMPLED)]
    cpus, owns = sorted(each.cpu for each in some), sorted(each.own for each in some)
    for rank in fresh:
        timed = state.ranks[rank]
        timed.samples, timed.fresh = timed.samples + 1, False
        cpu = timed.cpu - slow_usual.median_of_others(cpus, timed.cpu)
        own = timed.own - slow_usual.median_of_others(owns, timed.own)
        _add(timed, cpu, own, limit)
        if declared and timed.samples == SKIPPED + LEARNED:
            _judge_start(state, rank, timed)


def _judge_start(state: Slow, rank: int, timed: Timed) -> None:
    """What is usual is known: where that is far above its peers, they are its rule."""
    for usual in (timed.usual_cpu, timed.usual_own):
        if usual.mean > ALWAYS:
            usual.mean = 0.0
            state.always.add(rank)


def _add(timed: Timed, cpu: float, own: float, limit: float) -> None:
    learned = timed.samples - SKIPPED
    if learned > LEARNED:
        slow_usual.add(timed.usual_cpu, cpu, DOUBT, limit)
        slow_usual.add(timed.usual_own, own, DOUBT * OWN_LIMITS, limit * OWN_LIMITS)
    elif learned > 0:
        slow_usual.learn(timed.usual_cpu, cpu, learned)
        slow_usual.learn(timed.usual_own, own, learned)


def _told(
    state: Slow,
    ranks: list[int],
    seen: Seen,
    expected: Expectation,
    now: float,
    limit: float,
    hot: Collection[str],
) -> Iterator[Finding]:
    for rank in ranks:
        grown = state.ranks[rank].sum
        if grown < DOUBT:
            if state.doubts.pop(rank, None) is not None:
                _drop_clocks(state)
        elif rank not in state.doubts:
            asked = {rank, *_some(ranks, ASKED)}
            state.doubts[rank] = Doubt(_progress(seen, asked), now)
            for each in asked - state.clocks.keys():
                state.clocks[each] = Clocks(-1, 0, {}, 0, {})
        elif grown >= limit and rank not in state.told:
            since = state.doubts[rank].since
            compared = slow_words.compared(rank, since, _progress(seen, since))
            lasted_s = now - state.doubts[rank].at_s
            if compared is not None and _stands(state.ranks[rank], compared, limit, lasted_s):
                compared = slow_words.in_phase(rank, compared, _clocks(state.clocks, since))
                node_of = expected.node_of()
                compared = slow_words.in_heat(compared, hot=node_of[rank] in hot)
                together = _alike(state, rank, ranks, node_of)
                state.told.update(dict.fromkeys(together, node_of[rank]))
                always = rank in state.always
                yield slow_words.slow(rank, together, compared, expected, always=always)


def _clocks(clocks: Mapping[int, Clocks], ranks: Iterable[int]) -> dict[int, Clocks]:
    return {rank: clocks[rank] for rank in ranks if rank in clocks}


def _drop_clocks(state: Slow) -> None:
    asked = {rank for doubt in state.doubts.values() for rank in doubt.since}
    for rank in state.clocks.keys() - asked:
        del state.clocks[rank]


def _progress(seen: Seen, ranks: Iterable[int]) -> dict[int, RankProgress]:
    return {rank: seen[rank].progress for rank in ranks if rank in seen}


def _stands(timed: Timed, compared: Compared, limit: float, lasted_s: float) -> bool:
    """Whether what is known of its steps since bears it out: it waits less than others do. CPU time
    is hardly disturbed by neighbours; of time on the wall more is asked for."""
    if timed.usual_cpu.sum >= limit and compared.computes_longer and not compared.gpu:
        return compared.waits_less
    crowded = compared.cause is Cause.CROWDED and lasted_s < CROWDED_S
    return compared.takes_longer and compared.waits_least and not crowded


def _alike(state: Slow, rank: int, ranks: list[int], node_of: Mapping[int, str]) -> list[int]:
    """All of its role on its node, where all of them are in doubt; else it alone."""
    there = [each for each in ranks if node_of.get(each) == node_of[rank]]
    return there if all(state.ranks[each].sum >= DOUBT for each in there) else [rank]


def _taken_back(state: Slow, expected: Expectation) -> Iterator[Finding]:
    """Once nobody is slow any more."""
    for rank in [rank for rank in state.told if not state.ranks[rank].sum]:
        node = state.told.pop(rank)
        if not state.told:
            yield slow_words.keeps_pace(expected, f"rank {rank} on {node}", node, rank)
    if state.earlier and (state.told or (not state.doubts and _is_settled(state))):
        state.earlier = False
        if not state.told:
            yield slow_words.keeps_pace(expected, "each rank")


def _is_settled(state: Slow) -> bool:
    """Whether all that have a peer have been compared for long; who has none never is."""
    compared = [rank for ranks in state.roles.values() if len(ranks) > 1 for rank in ranks]
    return bool(compared) and all(state.ranks[rank].samples > SETTLED for rank in compared)


def _some(ranks: list[int], most: int) -> list[int]:
    """At most so many, evenly spread."""
    return ranks[:: -(-len(ranks) // most)]

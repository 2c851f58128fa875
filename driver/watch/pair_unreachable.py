"""Two nodes of a job that both speak to the driver, and that cannot reach each other. Pure.

A link that is cut in one direction, or a path through a fabric that is lost: each node alone looks
well. Probes tell, which need both directions; which of them is cut is told by the end that hears
requests whose answers get lost. Where a wall stands between nodes probes never get through: a pair
that never met counts only where both of its nodes met others, or one hears the other. And only
while the job stands still, also before its first step: a link that nobody needs is no fault.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec

from holdfast.driver.watch import jobs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, NodeSeen, evidence
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, Probe
from holdfast.telemetry.analysis import hang

Pair = tuple[str, str]
"""Who probes, and who is probed."""
Met = dict[str, set[str]]

SILENT_S = 3.0
"""Without an answer for so long a neighbour cannot be reached: a dozen probes, and more than one
retransmission of a handshake (1 s)."""
CERTAIN_S = 1.5
"""How long that has to be told: a daemon that stood still itself has an answer by then."""
OFTEN = 2
"""Neighbours that cannot reach a node from which on it is named rather than the pairs."""


class ProbeHistory(msgspec.Struct, frozen=True, kw_only=True):
    """State. `met` is filled in place: by node, whom it has reached, or who has reached it."""

    met: Met
    since_s: Mapping[Pair, float] = {}  # unanswered while a job stands still
    told: Mapping[str, int] = {}  # by job: the epoch that it was told of


class UnreachablePairs(Detector):
    """Of nodes that speak to a driver which hears most of them."""

    hears = ("probes",)

    def __init__(self) -> None:
        self._probes = ProbeHistory(met={})

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        heard(self._probes, beat)
        return ()

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        if not context.sees_most:
            return ()
        quiet_s, fresh_s = jobs.quiet_s(job, context.now), context.late_s + 0.25
        self._probes, findings = judge(
            self._probes,
            job.expected,
            context.nodes,
            quiet_s,
            fresh_s,
            context.now,
            all_wait=_all_wait(job),
        )
        return findings

    def gone(self, node: str) -> None:
        met = self._probes.met
        for other in met.pop(node, ()):
            met[other].discard(node)

    def drop(self, job: str) -> None:
        told = {name: epoch for name, epoch in self._probes.told.items() if name != job}
        self._probes = msgspec.structs.replace(self._probes, told=told)


def heard(apart: ProbeHistory, beat: Heartbeat) -> None:
    """Take note of whom the node reaches."""
    mine = apart.met.setdefault(beat.node, set())
    for probe in beat.probes:
        if (probe.ok or probe.reset) and probe.node not in mine:
            mine.add(probe.node)
            apart.met.setdefault(probe.node, set()).add(beat.node)


def judge(
    apart: ProbeHistory,
    expected: Expectation,
    nodes: Mapping[str, NodeSeen],
    quiet_s: float,
    fresh_s: float,
    now: float,
    *,
    all_wait: bool = True,
) -> tuple[ProbeHistory, Findings]:
    """Once an epoch, for a job in which nothing has moved for its floor (`quiet_s`). Nodes whose
    heartbeats are older than `fresh_s` are silent, which is another finding. `all_wait`: no rank
    loads, saves or computes, so that it may be for a pair that never met.
    """
    if apart.told.get(expected.job) == expected.epoch:
        return apart, ()
    stands = quiet_s > expected.hang_floor_s
    lost = _lost(apart, expected, nodes, now - fresh_s, all_wait=all_wait) if stands else {}
    if not lost and not apart.since_s:
        return apart, ()
    own = frozenset(expected.nodes)
    others = {pair: at_s for pair, at_s in apart.since_s.items() if pair[0] not in own}
    since_s = {pair: apart.since_s.get(pair, now) for pair in lost}
    apart = msgspec.structs.replace(apart, since_s=others | since_s)
    if all(now - at_s < CERTAIN_S for at_s in since_s.values()):
        return apart, ()
    told = {**apart.told, expected.job: expected.epoch}
    found = _finding(expected, lost, _hearing(nodes, own), quiet_s)  # also those told of just now
    return msgspec.structs.replace(apart, told=told), (found,)


def _all_wait(job: JobSeen) -> bool:
    seen = [each.progress for each in job.ranks.values()]
    return all(hang.in_collective(each) and not each.pause for each in seen)


def _lost(
    apart: ProbeHistory,
    expected: Expectation,
    nodes: Mapping[str, NodeSeen],
    least_s: float,
    *,
    all_wait: bool,
) -> dict[Pair, Probe]:
    """Pairs of nodes that are heard of, and that do not reach each other any more."""
    known = {node: nodes[node] for node in expected.nodes if node in nodes}
    heard_of = {node: seen for node, seen in known.items() if (seen.heard_s or 0.0) >= least_s}
    return {
        (name, probe.node): probe
        for name, seen in sorted(heard_of.items())
        for probe in seen.probes
        if probe.node in heard_of
        and _unanswered(probe)
        and (
            probe.heard
            or _met(apart.met, (name, probe.node))
            or (all_wait and _could_meet(apart.met, (name, probe.node), heard_of))
        )
    }


def _met(met: Met, pair: Pair) -> bool:
    return pair[1] in met.get(pair[0], ())


def _could_meet(met: Met, pair: Pair, nodes: Collection[str]) -> bool:
    """Whether each of the two met another of the job."""
    known = (met.get(node, set()) - {*pair} for node in pair)
    return all(any(node in nodes for node in each) for each in known)


def _unanswered(probe: Probe) -> bool:
    return not (probe.ok or probe.reset) and probe.silent_s > SILENT_S


def _hearing(nodes: Mapping[str, NodeSeen], own: Collection[str]) -> frozenset[Pair]:
    """Who hears whom ask, though what it answers gets lost."""
    seen = ((name, nodes[name].probes) for name in own if name in nodes)
    return frozenset((name, each.node) for name, probes in seen for each in probes if each.heard)


def _finding(
    expected: Expectation, lost: Mapping[Pair, Probe], hearing: Collection[Pair], quiet_s: float
) -> Finding:
    node, pair = _common(lost), _first(lost)
    cut = _cut(hearing, pair)
    one_way = cut is not None
    pair = cut or (min(pair), max(pair))
    who = f"{node} and its neighbours" if node else " and ".join(pair)
    cannot = f"{who} cannot reach each other"
    if one_way and not node:
        cannot = f"{pair[0]} cannot reach {pair[1]}"
    return Finding(
        kind=Kind.UNREACHABLE,
        weight=Weight.SUSPECT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        apart=() if node else pair,
        one_way=one_way and not node,
        stalled_s=quiet_s,
        summary=f"{cannot}, though the driver hears them",
        evidence=tuple(_evidence(lost)),
    )


def _cut(hearing: Collection[Pair], pair: Pair) -> Pair | None:
    """The one way of the pair that is cut: its first end hears the other one ask. None where
    neither does, or each of the two."""
    ways = [way for way in (pair, pair[::-1]) if way in hearing]
    return ways[0] if len(ways) == 1 else None


def _first(lost: Iterable[Pair]) -> Pair:
    """The pair that is told of, by its names."""
    return min(lost, key=sorted)


def _common(lost: Iterable[Pair]) -> str | None:
    """The node that is in more than one pair, where no other is in as many."""
    pairs = {frozenset(two) for two in lost}
    ranked = Counter(node for pair in pairs for node in sorted(pair)).most_common(2)
    (node, first), (_, second) = ranked
    return node if first >= OFTEN and first > second else None


def _evidence(lost: Mapping[Pair, Probe]) -> Iterable[Evidence]:
    for (prober, node), probe in sorted(lost.items())[:8]:
        text = f"{prober} got no answer from {node} for {probe.silent_s:.1f} s"
        text += ", and hears it ask: its own answers get lost" if probe.heard else ""
        yield evidence(f"daemon of {prober}", text, silent_s=round(probe.silent_s, 2))

"""Silence of a node: a finding only where a second source agrees. Pure.

A node that vanishes closes nothing: its connections stay open and silent. So the first source is
its daemon's missing heartbeats (with no newer word of its executor), the second one its neighbours'
probes, the cluster, or collectives that its ranks hold up. A kernel that answers a probe, be it by
refusing, is there: then only a process of the node is lost, and its supervisor restarts it. A link
that flaps silences a node as well, and is back soon: but for the cluster's word that the node is
gone, that is waited for.
"""

from collections.abc import Mapping

import msgspec

from holdfast.driver.watch.model import Findings, NodeSeen, Settings, evidence
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import Probe

Reported = frozenset[tuple[str, Kind]]
"""State: what has been told of each silence; forgotten when the node is heard again."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What silence is judged by, beside the nodes themselves."""

    period_s: float
    seated: frozenset[str] = frozenset()  # nodes that carry ranks
    held_up: Mapping[str, float] = {}  # by node: since how long peers wait for its ranks


def judge(
    told: Reported, nodes: Mapping[str, NodeSeen], around: Around, settings: Settings, now: float
) -> tuple[Reported, Findings]:
    """Look at every node once. Each silence is told once for each kind of finding."""
    found: dict[tuple[str, Kind], Finding] = {}
    lasting: set[tuple[str, Kind]] = set()
    limit_s = settings.missed_periods * around.period_s + 0.25
    silent_s = {seen.node: _silent_s(seen, around, settings, now) for seen in nodes.values()}
    any_silent = max(silent_s.values(), default=0.0) > limit_s
    witnesses = _witnesses(nodes, limit_s, now) if any_silent else {}
    for name, seen in nodes.items():
        if silent_s[name] > limit_s:
            answers = witnesses.get(name, {})
            finding = _silent_daemon(seen, answers, around, settings, silent_s[name], limit_s)
        else:
            finding = _without_executor(seen, now, limit_s)
        if finding is not None:
            key = (name, finding.kind)
            lasting.add(key)
            if key not in told:
                found[key] = finding
    return frozenset(lasting), tuple(found.values())


def _without_executor(seen: NodeSeen, now: float, limit_s: float) -> Finding | None:
    away_s = now - seen.left_s["executor"] if "executor" in seen.left_s else 0.0
    if seen.heard_s is not None and away_s > 2 * limit_s:
        return _executor_lost(seen, away_s)
    return None


def _silent_s(seen: NodeSeen, around: Around, settings: Settings, now: float) -> float:
    """Since the last heartbeat; a daemon that never spoke has had its time to come."""
    if seen.heard_s is not None:
        return now - seen.heard_s
    if seen.node not in around.seated:
        return 0.0
    return max(0.0, now - seen.known_s - settings.never_heard_s)


def _silent_daemon(
    seen: NodeSeen,
    witnesses: Mapping[str, Probe],
    around: Around,
    settings: Settings,
    silent_s: float,
    limit_s: float,
) -> Finding | None:
    first = _first_source(seen, around, silent_s)
    answered = [probe for probe in witnesses.values() if probe.ok or probe.reset]
    second = [] if answered else _second_source(seen, witnesses, around, settings, silent_s)
    vouched = seen.connected_s.get("executor", -1.0) > (seen.heard_s or seen.known_s) + limit_s
    if second and not vouched:
        return _node_lost(seen, silent_s, (first, *second))
    if silent_s > 2 * limit_s and (answered or vouched):
        return _daemon_lost(seen, silent_s, (first, *_answers(witnesses)))
    return None


def _first_source(seen: NodeSeen, around: Around, silent_s: float) -> Evidence:
    ended = seen.why.get("daemon")
    how = ended if ended and ended.startswith("the connection") else f"its connection: {ended}"
    tail = f"; {how}" if ended else ""
    since = "has sent no heartbeat yet" if seen.heard_s is None else "sent no heartbeat"
    text = f"{seen.node} {since} for {silent_s:.1f} s, period {around.period_s:g} s{tail}"
    return evidence("driver", text, silent_s=round(silent_s, 2))


def _witnesses(
    nodes: Mapping[str, NodeSeen], fresh_s: float, now: float
) -> dict[str, dict[str, Probe]]:
    """By node: who probes it, and what it last answered. A prober that nobody answers is cut off
    itself, or alone with the silent one: it counts only while its own heartbeats come."""
    found: dict[str, dict[str, Probe]] = {}
    for prober in nodes.values():
        if prober.heard_s is None or now - prober.heard_s > fresh_s:
            continue
        for probe in prober.probes:
            if probe.node != prober.node:
                found.setdefault(probe.node, {})[prober.node] = probe
    return found


def _second_source(
    seen: NodeSeen,
    witnesses: Mapping[str, Probe],
    around: Around,
    settings: Settings,
    silent_s: float,
) -> list[Evidence]:
    back = seen.heard_s is not None and silent_s <= settings.link_back_s  # it may be, any moment
    second = [
        evidence(
            f"daemon of {name}",
            f"{name} got no answer from {seen.node} for {probe.silent_s:.1f} s",
            silent_s=round(probe.silent_s, 2),
        )
        for name, probe in witnesses.items()
        if probe.silent_s > settings.probe_silent_s and not back
    ]
    if seen.present is False:
        second.append(evidence("cluster", f"the cluster says that {seen.node} is gone"))
    waited_s = 0.0 if back else around.held_up.get(seen.node, 0.0)
    if not witnesses and waited_s > settings.probe_silent_s and "executor" in seen.left_s:
        text = f"ranks on other nodes have waited {waited_s:.1f} s for those of {seen.node}"
        second.append(evidence("driver", text, waited_s=round(waited_s, 2)))
    return second


def _answers(witnesses: Mapping[str, Probe]) -> list[Evidence]:
    return [
        evidence(f"daemon of {name}", f"{probe.node} {'answers' if probe.ok else 'refuses'} {name}")
        for name, probe in witnesses.items()
        if probe.ok or probe.reset
    ]


def _node_lost(seen: NodeSeen, silent_s: float, sources: tuple[Evidence, ...]) -> Finding:
    return Finding(
        kind=Kind.NODE_LOST,
        weight=Weight.CONCLUSIVE,
        node=seen.node,
        stalled_s=silent_s,
        summary=f"{seen.node} is lost: silent for {silent_s:.1f} s, and {sources[1].text}",
        evidence=sources,
    )


def _daemon_lost(seen: NodeSeen, silent_s: float, sources: tuple[Evidence, ...]) -> Finding:
    return Finding(
        kind=Kind.DAEMON_LOST,
        weight=Weight.REPORT,
        node=seen.node,
        summary=f"the daemon of {seen.node} is silent for {silent_s:.1f} s; the node is there",
        evidence=sources,
    )


def _executor_lost(seen: NodeSeen, away_s: float) -> Finding:
    state = "its process is there" if seen.executor_alive else "its process is gone"
    sources = (
        evidence("driver", f"the executor of {seen.node} has had no connection for {away_s:.1f} s"),
        evidence(f"daemon of {seen.node}", state),
    )
    return Finding(
        kind=Kind.EXECUTOR_LOST,
        weight=Weight.REPORT,
        node=seen.node,
        summary=f"the executor of {seen.node} is away for {away_s:.1f} s; the node is there",
        evidence=sources,
    )

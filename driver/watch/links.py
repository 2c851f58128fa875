"""Links that go down: one flap is tolerated, two within five minutes make a suspect. Pure.

Counters alone (errors that rise) are only reported, once until they have been still for a while:
faults.md, rows 17 and 18.
"""

import msgspec

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, Settings, evidence
from holdfast.protocol import counts
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, NicRates

STILL_S = 60.0
"""For so long no error is counted, until the next is another event."""
MOST_FLAPS = 16
"""Kept of those between two heartbeats: no link goes down more often, a counter may jump."""


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one link: carrier changes when last heard, and when it went down of late."""

    up: bool
    changes: int
    downs: int | None = None
    downs_s: tuple[float, ...] = ()
    erred_s: float | None = None  # when errors were counted last


Links = dict[str, Link]
"""State of one node, by NIC."""


class BadLinks(Detector):
    def __init__(self) -> None:
        self._links: dict[str, Links] = {}  # by node

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        before = self._links.get(beat.node, {})
        if not (beat.nics or before):
            return ()
        self._links[beat.node], findings = judge(before, beat, context.settings, context.now)
        return findings

    def gone(self, node: str) -> None:
        self._links.pop(node, None)


def judge(links: Links, beat: Heartbeat, settings: Settings, now: float) -> tuple[Links, Findings]:
    """The NICs of one heartbeat, against what they were in the one before."""
    found: list[Finding] = []
    seen: Links = {}
    for nic in beat.nics:
        before = links.get(nic.name)
        after = _next(before, nic, settings, now)
        seen[nic.name] = after
        if before is not None and after.downs_s != before.downs_s and after.downs_s:
            found.append(_down(beat.node, nic, after, settings))
        still = before is None or before.erred_s is None or now - before.erred_s > STILL_S
        if nic.errors_per_s > 0 and still:
            found.append(_counters(beat.node, nic))
    return seen, tuple(found)


def _next(before: Link | None, nic: NicRates, settings: Settings, now: float) -> Link:
    downs_s = before.downs_s if before is not None else ()
    downs_s = tuple(at for at in downs_s if now - at <= settings.flap_window_s)
    if before is not None:
        downs_s += (now,) * min(_flaps(before, nic), MOST_FLAPS)
    erred_s = before.erred_s if before is not None else None
    return Link(
        up=nic.up,
        changes=nic.carrier_changes,
        downs=nic.downs,
        downs_s=downs_s,
        erred_s=now if nic.errors_per_s > 0 else erred_s,
    )


def _flaps(before: Link, nic: NicRates) -> int:
    """How often it went down since the heartbeat before."""
    if nic.downs is not None and before.downs is not None:
        return max(0, nic.downs - before.downs)
    # A flap between two heartbeats shows in the count of carrier changes alone: down and up.
    changes = max(0, nic.carrier_changes - before.changes)
    return max(int(before.up and not nic.up), (changes + int(before.up)) // 2)


def _down(node: str, nic: NicRates, link: Link, settings: Settings) -> Finding:
    times = len(link.downs_s)
    suspect = times >= settings.flaps
    state = "is down" if not nic.up else "went down and came back"
    often = f"{counts.times(times)} within {settings.flap_window_s:g} s"
    text = f"{nic.name} of {node} {state}: {often}"
    return Finding(
        kind=Kind.LINK_DOWN,
        weight=Weight.SUSPECT if suspect else Weight.REPORT,
        node=node,
        summary=text,
        evidence=(
            evidence(
                f"daemon of {node}",
                _counted(nic),
                downs=times,
            ),
        ),
    )


def _counted(nic: NicRates) -> str:
    if nic.downs is not None:
        return f"{nic.name} went down {counts.times(nic.downs)} so far"
    return f"carrier of {nic.name} changed {counts.times(nic.carrier_changes)} so far"


def _counters(node: str, nic: NicRates) -> Finding:
    return Finding(
        kind=Kind.COUNTERS,
        weight=Weight.REPORT,
        node=node,
        summary=f"error counters of {nic.name} on {node} rise: {nic.errors_per_s:.3g} a second",
        evidence=(
            evidence(
                f"daemon of {node}",
                f"{nic.name}: {nic.errors_per_s:.3g} errors a second",
                errors_per_s=nic.errors_per_s,
            ),
        ),
    )

"""What the nodes of a job sent to each other in the last window, by what their kernels tell. Pure.

Used by `SlowLinks`. Daemons tell sums since they began, and of the busiest flows alone; a window is
the difference of two of them. Whose an address is, its node's own flows tell.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.protocol.messages import Flow, Heartbeat

LEAST_BYTES = 1_000_000
"""A flow of less in a window tells nothing of its link."""

MOST = 2_048
"""Flows of a job that are looked at: the busiest of each node, in any job a few of each."""
FEW = 2

Pair = tuple[str, str]
"""The node that sends, and the one that gets it."""
_Ends = tuple[str, str]


class Moved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one node sent to another in a window."""

    sent_bytes: int
    busy_s: float
    segments: int
    resent: int
    rtt_s: float
    steps: float
    window_s: float  # between the first and the last that was told of it

    @property
    def rate(self) -> float:
        """Bytes a second, while anything was on its way."""
        return self.sent_bytes / max(self.busy_s, 1e-6)

    @property
    def busy(self) -> float:
        """Share of the window in which something was; of many connections it may be above one."""
        return self.busy_s / self.window_s

    @property
    def step_bytes(self) -> float:
        return self.sent_bytes / self.steps

    @property
    def step_s(self) -> float:
        return self.window_s / self.steps

    @property
    def lost(self) -> float:
        """Share of what was sent that was sent again."""
        return self.resent / max(self.segments, 1)


class Seen(NamedTuple):
    """A flow as it was told, and how long its daemon ran then."""

    flow: Flow
    uptime_s: float


class Told(msgspec.Struct):
    """Of one node: what its daemon told last. Written in place."""

    incarnation: str
    addresses: set[str] = set()
    heard: set[_Ends] = set()  # since the window began
    flows: dict[_Ends, Seen] = {}
    base: dict[_Ends, Seen] = {}  # as it was when the window began


def hear(nodes: dict[str, Told], beat: Heartbeat) -> None:
    """A daemon that began anew counts from nothing, and so does one whose ranks were others."""
    told = nodes.get(beat.node)
    if told is None or told.incarnation != beat.incarnation or _began_anew(told, beat):
        told = nodes[beat.node] = Told(beat.incarnation)
    for flow in beat.flows[-max(FEW, MOST // len(nodes)) :]:
        ends = flow.local, flow.remote
        told.addresses.add(flow.local)
        told.heard.add(ends)
        told.flows[ends] = seen = Seen(flow, beat.uptime_s)
        told.base.setdefault(ends, seen)  # how much of it is of this window nobody knows


def _began_anew(told: Told, beat: Heartbeat) -> bool:
    known = ((told.flows.get((each.local, each.remote)), each) for each in beat.flows)
    return any(last is not None and each.sent_bytes < last.flow.sent_bytes for last, each in known)


def window(nodes: dict[str, Told], steps: int, window_s: float) -> dict[Pair, Moved]:
    """What moved since the window began; the next one begins. What did not move is forgotten: a
    flow that is told again later brings all of the time between."""
    owners = _owners(nodes)
    found: dict[Pair, Moved] = {}
    for name, told in nodes.items():
        for ends, seen in told.flows.items():
            to, base = owners.get(ends[1]), told.base[ends]
            if to is None or to == name or seen.uptime_s <= base.uptime_s:
                continue
            if seen.flow.sent_bytes - base.flow.sent_bytes >= LEAST_BYTES:
                moved = _between(base, seen, steps / window_s)
                found[name, to] = _together(found.get((name, to)), moved)
        told.base = {ends: told.flows[ends] for ends in told.heard}
        told.flows, told.heard = dict(told.base), set()
    return found


def _owners(nodes: Mapping[str, Told]) -> dict[str, str]:
    """Whose an address is; nobody's where several nodes have it, as 127.0.1.1 or a bridge's."""
    names = [(address, name) for name, told in nodes.items() for address in told.addresses]
    times = Counter(address for address, _ in names)
    return {address: name for address, name in names if times[address] == 1}


def _between(first: Seen, last: Seen, steps_per_s: float) -> Moved:
    """A window has one to three looks of a daemon: what is told counts by the time between."""
    base, flow, took_s = first.flow, last.flow, last.uptime_s - first.uptime_s
    return Moved(
        sent_bytes=flow.sent_bytes - base.sent_bytes,
        busy_s=flow.busy_s - base.busy_s,
        segments=flow.segments - base.segments,
        resent=flow.resent - base.resent,
        rtt_s=flow.rtt_s,
        steps=steps_per_s * took_s,
        window_s=took_s,
    )


def _together(one: Moved | None, other: Moved) -> Moved:
    """Of two rails between the same nodes the busier one: that is what a job waits for."""
    return other if one is None or other.busy_s > one.busy_s else one

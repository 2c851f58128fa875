"""What the nodes of a job sent to each other in the last window, by what their kernels tell. Pure.

Used by `SlowLinks`. Daemons tell sums since they began, and of the busiest flows alone; a window is
the difference of two of them. Whose an address is, its node's own flows tell.
"""

import msgspec

from holdfast.protocol.messages import Flow, Heartbeat

LEAST_BYTES = 1_000_000
"""A flow of less in a window tells nothing of its link."""

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
    window_s: float  # between two looks of its daemon

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


class Told(msgspec.Struct):
    """Of one node: what its daemon told last. Written in place."""

    incarnation: str
    at_s: float = 0.0  # on the daemon's clock
    flows: dict[_Ends, Flow] = {}
    base_s: float = 0.0
    base: dict[_Ends, Flow] = {}  # as it was when the window began


def hear(nodes: dict[str, Told], beat: Heartbeat) -> None:
    """A daemon that began anew counts from nothing, and so does one whose ranks were others."""
    told = nodes.get(beat.node)
    if told is None or told.incarnation != beat.incarnation or _began_anew(told, beat):
        told = nodes[beat.node] = Told(beat.incarnation, base_s=beat.uptime_s)
    told.at_s = beat.uptime_s
    for flow in beat.flows:
        ends = flow.local, flow.remote
        told.flows[ends] = flow
        told.base.setdefault(ends, flow)  # how much of it is of this window nobody knows


def _began_anew(told: Told, beat: Heartbeat) -> bool:
    known = ((told.flows.get((each.local, each.remote)), each) for each in beat.flows)
    return any(last is not None and each.sent_bytes < last.sent_bytes for last, each in known)


def window(nodes: dict[str, Told], steps_per_s: float) -> dict[Pair, Moved]:
    """What moved since the window began, as each daemon looked; the next one begins."""
    owners = {local: name for name, told in nodes.items() for local, _ in told.flows}
    found: dict[Pair, Moved] = {}
    for name, told in nodes.items():
        for ends, flow in told.flows.items():
            to, base = owners.get(ends[1], name), told.base[ends]
            news = told.at_s > told.base_s and flow.sent_bytes - base.sent_bytes >= LEAST_BYTES
            if to != name and news:
                moved = _between(base, flow, steps_per_s, told.at_s - told.base_s)
                found[name, to] = _together(found.get((name, to)), moved)
        told.base, told.base_s = dict(told.flows), told.at_s
    return found


def _between(base: Flow, flow: Flow, steps_per_s: float, window_s: float) -> Moved:
    return Moved(
        sent_bytes=flow.sent_bytes - base.sent_bytes,
        busy_s=flow.busy_s - base.busy_s,
        segments=flow.segments - base.segments,
        resent=flow.resent - base.resent,
        rtt_s=flow.rtt_s,
        steps=steps_per_s * window_s,
        window_s=window_s,
    )


def _together(one: Moved | None, other: Moved) -> Moved:
    """Of two rails between the same nodes the slower one: what goes by the other waits for it."""
    return other if one is None or other.rate < one.rate else one

"""What ranks here send to other nodes, and how long that is on its way, by the kernel's own books.

Called by the daemon's loop. A connection is *busy* while something sent is not acknowledged, and
the other process reads what comes: over a good link that is a small share of the time, whatever the
job sends. RDMA and NVLink have no such books. Must not judge.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.daemon.samplers import sockets
from holdfast.daemon.samplers.sockets import Connection
from holdfast.protocol.messages import Flow

EVERY_S, SHARE = 5.0, 200
"""Between two looks: 200 times as long as one takes, and 5 s at least: a node with thousands of
connections takes some milliseconds, and one with a hundred thousand half a second."""
MOST = 16
"""Flows in a heartbeat, the busiest: in a ring there are two, among all nodes thousands."""
UNREADABLE = ("TCP connections: this kernel does not tell of them by sock_diag",)

Ends = tuple[str, str]


class Flows:
    """`pids`: of the ranks that run here now."""

    def __init__(self, pids: Callable[[], Sequence[int]]) -> None:
        self._pids = pids
        self._next_s = float("-inf")
        self._seen: dict[int, Connection | None] = {}  # by cookie; None: no rank's
        self._flows: dict[Ends, Flow] = {}
        self._whose: set[int] = set()  # pids that were asked for their connections
        self.unreadable: tuple[str, ...] = ()

    def sample(self, now: float) -> tuple[Flow, ...]:
        """The flows in which anything moved; none between two looks, and where none can be had."""
        if now < self._next_s:
            return ()
        began_s = time.perf_counter()
        told = self._look()
        self._next_s = now + max(EVERY_S, SHARE * (time.perf_counter() - began_s))
        return told

    def _look(self) -> tuple[Flow, ...]:
        pids = set(self._pids())
        if not pids:
            self._seen, self._flows = {}, {}
            return ()
        before, found = dict(self._flows), sockets.connections()
        self.unreadable = UNREADABLE if found is None else ()
        self._take(found or (), pids)
        moved = [ends for ends, flow in self._flows.items() if flow != before.get(ends)]
        busiest = sorted(moved, key=lambda ends: _busy_since(before.get(ends), self._flows[ends]))
        return tuple(self._flows[ends] for ends in busiest[-MOST:])

    def _take(self, found: Iterable[Connection], pids: set[int]) -> None:
        there = [each for each in found if _leaves(each)]
        if pids != self._whose:  # what was nobody's may be a rank's that was not known then
            self._whose = pids
            self._seen = {cookie: last for cookie, last in self._seen.items() if last is not None}
        if any(each.cookie not in self._seen for each in there):
            self._learn(there, pids)
        here = {each.cookie for each in there}
        self._seen = {cookie: last for cookie, last in self._seen.items() if cookie in here}
        rtts: dict[Ends, float] = {}
        for each in there:
            last = self._seen[each.cookie]
            if last is None:
                continue
            self._seen[each.cookie] = each
            ends = each.local, each.remote
            if each.acknowledged_bytes > last.acknowledged_bytes:
                rtts[ends] = max(rtts.get(ends, 0.0), each.rtt_us / 1e6)
            self._flows[ends] = _more(self._flows.get(ends), last, each, rtts.get(ends))

    def _learn(self, found: Iterable[Connection], pids: Iterable[int]) -> None:
        """Whose those are that were not seen before: a rank's begins with nothing."""
        mine = set(_inodes(pids))
        for each in found:
            if each.cookie not in self._seen:
                none = each._replace(acknowledged_bytes=0, busy_us=0, segments=0, resent=0)
                self._seen[each.cookie] = none if each.inode in mine else None


def _leaves(each: Connection) -> bool:
    """Whether it has sent something, and by a link: not to its own address."""
    return each.acknowledged_bytes > 0 and each.local != each.remote


def _inodes(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        yield from sockets.inodes_of(pid) or ()


def _more(flow: Flow | None, last: Connection, now: Connection, rtt_s: float | None) -> Flow:
    before = flow or Flow(local=now.local, remote=now.remote)
    return Flow(
        local=now.local,
        remote=now.remote,
        sent_bytes=before.sent_bytes + now.acknowledged_bytes - last.acknowledged_bytes,
        busy_s=before.busy_s + (now.busy_us - last.busy_us) / 1e6,
        segments=before.segments + now.segments - last.segments,
        resent=before.resent + now.resent - last.resent,
        rtt_s=before.rtt_s if rtt_s is None else rtt_s,
    )


def _busy_since(before: Flow | None, now: Flow) -> float:
    return now.busy_s - (before.busy_s if before is not None else 0.0)

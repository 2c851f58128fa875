"""`Nodes`: who is connected, when each node was heard, what the cluster says of it. Pure.

Made by `Watch`, which is told of it; kept in the `Context`, where detectors read it. Says what each
node's daemon should do. Times are the driver's.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Unpack

import msgspec

from holdfast.driver.watch import neighbours
from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.model import NodeSeen, SeenChanges
from holdfast.driver.watch.neighbours import Orders
from holdfast.protocol.messages import Heartbeat


class Nodes:
    """Those that are known: the cluster, a job or a connection has named them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known = context.nodes
        self._calm: Orders | None = None  # where no job stands still
        self._orders: Orders | None = None
        self._standing: set[str] = set()  # jobs whose nodes probe more of each other

    def seen(self, node: str, now: float) -> NodeSeen:
        return self._known.get(node) or NodeSeen(node=node, known_s=now)

    def connected(self, node: str, process: str, now: float) -> None:
        seen = self.seen(node, now)
        left = {name: at for name, at in seen.left_s.items() if name != process}
        why = {name: text for name, text in seen.why.items() if name != process}
        since = {**seen.connected_s, process: now}
        self._put(seen, left_s=left, connected_s=since, why=why)

    def disconnected(self, node: str, process: str, now: float, why: str) -> bool:
        """Whether it is not known any more: neither the cluster nor a job knows it."""
        seen = self.seen(node, now)
        since = {name: at for name, at in seen.connected_s.items() if name != process}
        left = {**seen.left_s, process: now}
        if since or seen.present is not None or node in self._context.seats:
            self._put(seen, connected_s=since, left_s=left, why={**seen.why, process: why})
            return False
        self._known.pop(node, None)
        self._order_anew()
        return True

    def gone(self, node: str, now: float) -> None:
        if seen := self._known.get(node):
            self._known[node] = NodeSeen(node=node, known_s=now, present=seen.present)

    def fact(self, node: str, present: bool, now: float) -> None:
        self._put(self.seen(node, now), present=present)

    def heard(self, beat: Heartbeat, now: float) -> None:
        seen, alive = self.seen(beat.node, now), beat.executor_alive
        self._put(
            seen, heard_s=now, probes=beat.probes, executor_alive=alive, unreadable=beat.unreadable
        )

    def unheard(self, now: float) -> None:
        """Nobody listened until now: each has to be heard again before it can be silent."""
        for seen in self._known.values():
            connected = dict.fromkeys(seen.connected_s, now)
            left = dict.fromkeys(seen.left_s, now)
            self._put(seen, known_s=now, heard_s=None, connected_s=connected, left_s=left)

    def seat(self) -> None:
        """Other jobs are expected now."""
        wanted = self._context.expected.values()
        self._context.seats = {node: each for each in wanted for node in each.nodes}
        self._order_anew()

    def stands(self, job: str, *, stands: bool) -> None:
        """Whether the job stands still: its nodes probe more of each other meanwhile."""
        if stands != (job in self._standing):
            self._standing ^= {job}
            self._orders = None

    def know(self, names: Iterable[str], now: float) -> None:
        """A job has ranks there."""
        for node in names:
            self._put(self.seen(node, now))

    def most_have_reported(self) -> bool:
        """Of those that the cluster does not say are gone."""
        known = [seen for seen in self._known.values() if seen.present is not False]
        return 2 * sum(1 for seen in known if seen.heard_s is not None) > len(known)

    def instructions(self) -> Orders:
        """What each daemon should do, whole."""
        if self._calm is None:
            wanted, settings = self._context.expected.values(), self._context.settings
            self._calm = neighbours.instructions(self._known, wanted, settings)
        if self._orders is None:
            expected = self._context.expected
            known = [expected[job] for job in sorted(self._standing) if job in expected]
            self._orders = reduce(neighbours.standing, known, self._calm)
        return self._orders

    def _order_anew(self) -> None:
        self._calm = self._orders = None

    def _put(self, seen: NodeSeen, **changes: Unpack[SeenChanges]) -> None:
        if seen.node not in self._known:
            self._order_anew()
        self._known[seen.node] = msgspec.structs.replace(seen, **changes)

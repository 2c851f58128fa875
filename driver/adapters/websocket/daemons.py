"""The daemons' connections: heartbeats to the detectors, acknowledged; instructions back.

Used by `sessions`; `push` is called by `driver.follow.feed`. Nothing of this enters the journal but
what a detector concluded, and until it is there the heartbeat that led to it is not acknowledged.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from holdfast.driver.adapters.websocket.link import Link, Rejected
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.watch import Watch
from holdfast.kit.ids import new_id
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import messages
from holdfast.protocol.messages import Acknowledged, AskBurst, BurstTaken, Heartbeat, Hello, Refused

_log = LazyLogger()


class Emit(Protocol):
    """Has the core told of an event; calls `done` once what it led to cannot be lost any more."""

    def __call__(self, event: AnyEvent, done: Callable[[], None] | None = None) -> None: ...


class Heard:
    """What one life of a daemon has said, and which of it may be acknowledged."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.newest = -1  # sequence
        self._waiting: list[int] = []  # for each event that is not committed, its heartbeat

    def emit(self, event: AnyEvent, emit: Emit) -> None:
        """Pass on what the newest heartbeat has shown."""
        self._waiting.append(self.newest)
        emit(event, partial(self._waiting.remove, self.newest))

    def up_to(self, sequence: int) -> int:
        """How far a heartbeat is answered: its daemon forgets what it said up to there."""
        return min([sequence, *(each - 1 for each in self._waiting)])


class Daemons:
    """One connection a node, and what its daemon was told to watch."""

    def __init__(
        self,
        *,
        watch: Watch,
        emit: Emit,
        now: Callable[[], float],
        term: Callable[[], int],
        told_time: Callable[[], float] | None = None,
    ) -> None:
        """`told_time`: the driver's clock as daemons are told it, which never stands; `now`."""
        self._watch = watch
        self._emit = emit
        self._now = now
        self._time = told_time or now
        self._term = term
        self._numbers = itertools.count(1)
        self._links: dict[str, Link] = {}
        self._told: dict[str, messages.WatchOrder] = {}
        self._orders: Mapping[str, messages.WatchOrder] = {}
        self._heard: dict[str, Heard] = {}
        self._take_bursts: set[str] = set()  # nodes whose daemon knows of them
        self._bursts: dict[str, tuple[str, asyncio.Future[BurstTaken]]] = {}  # node, by question

    def push(self, orders: Mapping[str, messages.WatchOrder]) -> None:
        """Send each daemon what it should do, where that is news to it."""
        self._orders = orders
        for node, link in self._links.items():
            self._tell(node, link)

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        """What its daemon counted. Raises `TemporaryError` where it does not answer in time, or
        says why it cannot; `PermanentError` where it is too old to be asked.
        """
        if (link := self._links.get(node)) is None:
            raise TemporaryError(f"node {node}: its daemon is not connected")
        if node not in self._take_bursts:
            raise PermanentError(f"node {node}: its daemon is of a version that takes no bursts")
        ask = AskBurst(id=new_id("ask"), seconds=seconds)
        answer = asyncio.get_running_loop().create_future()
        self._bursts[ask.id] = node, answer
        link.send(ask)
        try:
            async with asyncio.timeout(limit_s):
                taken: BurstTaken = await answer
        except TimeoutError:
            raise TemporaryError(f"node {node}: no burst within {limit_s:g} s") from None
        finally:
            del self._bursts[ask.id]
        if taken.why:
            raise TemporaryError(f"node {node}: {taken.why}")
        return taken.data

    def opened(self, node: str, link: Link, hello: Hello) -> None:
        """A daemon is there; an older connection of its node ends."""
        if node in self._links:
            self._links[node].close(
                Refused(
                    what="connection",
                    why=f"a newer one of node {node} took its place",
                    fix="Let one daemon run on a node.",
                )
            )
            self.ended(node, self._links[node], "a newer connection took its place")
        self._links[node] = link
        (self._take_bursts.add if hello.bursts else self._take_bursts.discard)(node)
        heard = self._heard.get(node)
        if heard is None or heard.incarnation != hello.incarnation:
            self._heard[node] = Heard(hello.incarnation)
        self._watch.connected(node, "daemon", self._now())
        self._tell(node, link)

    def drop(self, node: str, refused: Refused) -> None:
        """End the node's connection, if it has one."""
        if link := self._links.get(node):
            link.close(refused)
            self.ended(node, link, refused.why)

    def received(self, node: str, link: Link, message: object) -> None:
        """A heartbeat's findings go on, if it is no late or repeated one, and it is acknowledged as
        far as nothing would be lost with this driver; a predecessor's is ignored.
        """
        if self._links.get(node) is not link:
            return
        came_s = self._time()
        match message:
            case Heartbeat() if message.node == node:
                self._hear(message)
                upto = self._heard[node].up_to(message.sequence)
                clocks = {"sent_s": message.sent_s, "came_s": came_s, "answered_s": self._time()}
                link.send(Acknowledged(sequence=upto, **clocks))
            case Heartbeat():
                raise Rejected("Heartbeat.node", f"{message.node!r} is not {node!r}", "Mend it.")
            case BurstTaken():
                asked, answer = self._bursts.get(message.id, ("", None))
                if answer is not None and asked == node and not answer.done():
                    answer.set_result(message)
            case Refused():
                _log.warning("daemon refused", node=node, what=message.what, why=message.why)
            case _:
                raise Rejected(type(message).__name__, "not expected here", "Send heartbeats.")

    def ended(self, node: str, link: Link, why: str) -> None:
        """A connection has ended; silence is the detectors' to judge."""
        if self._links.get(node) is not link:
            return
        del self._links[node]
        for asked, answer in self._bursts.values():
            if asked == node and not answer.done():
                answer.set_result(BurstTaken(id="", why="its daemon's connection ended meanwhile"))
        self._told.pop(node, None)
        self._watch.disconnected(node, "daemon", self._now(), why)

    def _hear(self, beat: Heartbeat) -> None:
        """Take in what it says, but not of a time before another: a fault may be mended since."""
        heard = self._heard[beat.node]
        if beat.incarnation != heard.incarnation or beat.sequence <= heard.newest:
            return
        heard.newest = beat.sequence
        for event in self._watch.heard(beat, self._now()):
            heard.emit(event, self._emit)

    def _tell(self, node: str, link: Link) -> None:
        order = self._orders.get(node)
        if order is not None and order != self._told.get(node):
            self._told[node] = order
            link.send(replace(order, term=self._term(), number=next(self._numbers)))

"""One node's executor as the driver knows it: what it was told, what it reported, what it is asked.

Used by `sessions`. Outlives connections: what the node was told is sent again at each reconnect.
"""

import asyncio
from collections.abc import Callable

from holdfast.driver.adapters.websocket.link import Link, Rejected
from holdfast.driver.adapters.websocket.observed import BLANK, check_epoch, news
from holdfast.driver.core.events import (
    AnyEvent,
    DesiredRefused,
    ExecutorConnected,
    ExecutorDisconnected,
)
from holdfast.driver.ports import TemporaryError
from holdfast.driver.watch import Watch
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import (
    AskLog,
    AskStacks,
    Desired,
    Hello,
    LastLines,
    LogChunk,
    Observed,
    Refused,
    Stacks,
)

MAX_ASKS = 32
"""Questions that one executor may have open: a page of logs for each of its ranks, and stacks."""

Answer = Stacks | LogChunk
_log = LazyLogger()


class ExecutorSide:
    """The driver's half of one executor. `link` is None while it is not connected."""

    def __init__(
        self,
        node: str,
        *,
        watch: Watch,
        emit: Callable[[AnyEvent], None],
        term: Callable[[], int],
        now: Callable[[], float],
        keep: Callable[[LastLines], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._keep = keep
        self._jobs: set[str] = set()  # that it was told of: it may speak of these
        self._watch = watch
        self._emit = emit
        self._term = term
        self._now = now
        self._desired: Desired | None = None
        self._told = False  # by this driver, on any connection
        self._followed = 0  # latest term of another driver that it has followed
        self._before = BLANK  # newest report of this connection
        self._asks: dict[str, asyncio.Future[Answer]] = {}
        self.link: Link | None = None
        self.hello: Hello | None = None
        self.observed: Observed | None = None

    @property
    def blank(self) -> bool:
        """True where it is not connected and was never told anything."""
        return self.link is None and self._desired is None

    def instruct(self, desired: Desired) -> None:
        """Keep and send; what was told before is void."""
        self._desired = desired
        if desired.job is not None:
            self._jobs = {desired.job}
        if desired.forget_job is not None:
            self._jobs.add(desired.forget_job)
        self._tell(desired)

    def ask(self, question: AskStacks | AskLog) -> asyncio.Future[Answer]:
        """The answer to come. Raises `TemporaryError` where it cannot be asked now."""
        if self.link is None:
            raise TemporaryError(f"node {self._node}: its executor is not connected")
        if len(self._asks) >= MAX_ASKS:
            raise TemporaryError(f"node {self._node}: {MAX_ASKS} questions are open already")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._asks.pop(question.id, None))
        self._asks[question.id] = answer
        self.link.send(question)
        return answer

    # ------------------------------------------------------------ what the connection brings

    def opened(self, link: Link, hello: Hello) -> None:
        """A connection is there. An older one of the same node ends: one executor a node."""
        if self.link is not None:
            self.link.close(
                Refused(
                    what="connection",
                    why=f"a newer one of node {self._node} took its place",
                    fix="Let one executor run on a node.",
                )
            )
            self.ended(self.link, "a newer connection took its place")
        self.link, self.hello, self._before = link, hello, BLANK
        self._followed = 0 if self._told and hello.term == self._term() else hello.term
        self._watch.connected(self._node, "executor", self._now())
        self._emit(
            ExecutorConnected(
                node=self._node,
                incarnation=hello.incarnation,
                address=hello.address,
                generation=hello.generation,
                epoch=hello.epoch,
                term=self._followed,
            )
        )
        if self._desired is not None and self._desired.epoch >= hello.epoch:
            self._tell(self._desired)  # else the journal was put back: the core will tell anew

    def received(self, link: Link, message: object) -> None:
        """A message of a connection; what an older one still brings is ignored."""
        if link is not self.link:
            return
        match message:
            case Observed():
                self._observed(message)
            case Stacks() | LogChunk():
                answer = self._asks.get(message.id)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case LastLines() if message.job in self._jobs:
                self._keep(message)
            case LastLines():
                return  # the job is forgotten, or none that this node had
            case Refused(generation=int(generation)):
                why = f"{message.what}: {message.why}. {message.fix}"
                self._emit(DesiredRefused(node=self._node, generation=generation, why=why))
            case Refused():
                _log.warning(
                    "executor refused", node=self._node, what=message.what, why=message.why
                )
            case _:
                raise Rejected(type(message).__name__, "not expected here", "Send it once, first.")

    def ended(self, link: Link, why: str) -> None:
        """A connection has ended; that of a predecessor says nothing about the node."""
        if link is not self.link or self.hello is None:
            return
        self.link = None
        for answer in tuple(self._asks.values()):
            if not answer.done():
                answer.set_exception(TemporaryError(f"node {self._node}: {why}"))
        self._watch.disconnected(self._node, "executor", self._now(), why)
        self._emit(ExecutorDisconnected(node=self._node, incarnation=self.hello.incarnation))

    def _tell(self, desired: Desired) -> None:
        """Not where it has followed another driver of our term, or of a later one: the journal was
        put back, and the next driver has a term of its own.
        """
        if self.link is not None and self._followed < self._term():
            self.link.send(desired)
            self._told = True

    def _observed(self, seen: Observed) -> None:
        if seen.node != self._node:
            raise Rejected("Observed.node", f"{seen.node!r} is not {self._node!r}", "Mend it.")
        if self.hello is not None:
            check_epoch(seen, self._desired, self.hello)
        if self._is_old(seen):
            return
        found = self._watch.observed(seen)  # first: it learns how far ranks were that have ended
        told = news(
            self._before,
            seen,
            self._desired,
            completed_step=self._watch.completed_step,
            saved_steps=self._watch.saved_steps,
        )
        for event in (*told, *found):
            self._emit(event)
        self._before = self.observed = seen

    def _is_old(self, seen: Observed) -> bool:
        """Late or repeated, or of an executor that was here before. The first report of a
        connection may repeat the last one before it.
        """
        if self.hello is not None and seen.incarnation != self.hello.incarnation:
            return True
        last = self.observed
        if last is None or last.incarnation != seen.incarnation:
            return False
        if self._before is BLANK:
            return seen.sequence < last.sequence
        return seen.sequence <= last.sequence

"""The driver's side of the nodes: `Sessions`, which is the port `Nodes`, and its two WebSockets.

Made by `driver.main`. What executors observe becomes events for the loop, what daemons send goes to
the detectors. Must not decide anything: it keeps what a node was told, and says what is new.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from holdfast.driver.adapters.tokens import bearer
from holdfast.driver.adapters.websocket.daemons import Daemons, Emit
from holdfast.driver.adapters.websocket.executor import ExecutorSide
from holdfast.driver.adapters.websocket.link import Link, Rejected
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.watch import Watch
from holdfast.kit.ids import new_id
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import (
    AskLog,
    AskStacks,
    Desired,
    FromDaemon,
    FromExecutor,
    Hello,
    LastLines,
    LogChunk,
    Observed,
    Refused,
    Stacks,
    Welcome,
)
from holdfast.protocol.wire import Decoder

LOG_WITHIN_S = 5.0
"""How long a person waits for a piece of a log before the node counts as not answering."""

_OF_NODE = re.compile("/v1alpha1/nodes/(?P<node>[^/]+)/(?P<process>executor|daemon)")
_EXECUTOR: Decoder[Any] = Decoder(FromExecutor)
_DAEMON: Decoder[Any] = Decoder(FromDaemon)
_log = LazyLogger()

MOST_SAID = 1_000
"""Refusals that are kept in mind, so that each is said once."""

T = TypeVar("T", Stacks, LogChunk)

Refusal = Callable[[str, str], Awaitable[str]]
"""Why a process with this token may not connect as this node, in a sentence; "" where it may.

Raises `TemporaryError` while nobody can say.
"""


class Sessions:
    """Connections of executors and daemons, and what each node was told last."""

    def __init__(
        self,
        *,
        refusal: Refusal,
        watch: Watch,
        emit: Emit,
        term: Callable[[], int],
        now: Callable[[], float],
        heartbeat_period_s: float,
        keep: Callable[[LastLines], None] = lambda _: None,
        keeps_bytes: int = 0,
        told_time: Callable[[], float] | None = None,
    ) -> None:
        self._keep = keep
        self._keeps_bytes = keeps_bytes
        self._refusal = refusal
        self._said: set[tuple[str, str]] = set()
        self._watch = watch
        self._emit = emit
        self._term = term
        self._now = now
        self._heartbeat_period_s = heartbeat_period_s
        self._executors: dict[str, ExecutorSide] = {}
        self._drops: Counter[str] = Counter()  # by node
        self.daemons = Daemons(watch=watch, emit=emit, now=now, term=term, told_time=told_time)

    def before(self, app: ASGIApp) -> ASGIApp:
        """The two endpoints, and `app` for all else: what is around people's requests there is not
        for nodes, which come by the thousand. Nor is a router, which waits with each of them.
        """
        serve = {"executor": self._executor, "daemon": self._daemon}

        def route(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            asked = scope["type"] == "websocket" and _OF_NODE.fullmatch(scope["path"])
            if not asked:
                return app(scope, receive, send)
            return serve[asked["process"]](WebSocket(scope, receive, send), asked["node"])

        return route

    def drop(self, node: str, why: str) -> None:
        """Its processes are gone: their connections end, those that have said no Hello yet with
        them, and others have to be admitted anew.
        """
        self._drops[node] += 1
        refused = Refused(what="connection", why=why, fix="Nothing is to be done.")
        if (side := self._executors.get(node)) and side.link is not None:
            link = side.link
            link.close(refused)
            side.ended(link, why)
        self.daemons.drop(node, refused)
        self._watch.gone(node, self._now())

    # ------------------------------------------------------------ the port `Nodes`

    def instruct(self, desired: Desired) -> None:
        self._of(desired.node).instruct(desired)

    def hello(self, node: str) -> Hello | None:
        side = self._executors.get(node)
        return side.hello if side and side.link else None

    def observed(self, node: str) -> Observed | None:
        side = self._executors.get(node)
        return side.observed if side else None

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        ask = AskStacks(id=new_id("ask"), job=job, ranks=tuple(ranks))
        return (await self._answer(node, ask, Stacks, limit_s)).stacks

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        return await self.daemons.burst(node, seconds, limit_s)

    async def log(
        self, node: str, job: str, *, attempt: int, rank: int, stream: str, offset: int
    ) -> tuple[bytes, int]:
        ask = AskLog(
            id=new_id("ask"), job=job, attempt=attempt, rank=rank, stream=stream, offset=offset
        )
        chunk = await self._answer(node, ask, LogChunk, LOG_WITHIN_S)
        if chunk.missing:
            raise PermanentError(
                f"log: rank {rank} has no {stream} of attempt {attempt} of {job} on {node}"
            )
        return chunk.data, chunk.end

    async def _answer(self, node: str, ask: AskStacks | AskLog, kind: type[T], limit_s: float) -> T:
        answer = self._of(node).ask(ask)
        try:
            async with asyncio.timeout(limit_s):
                message = await answer
        except TimeoutError:
            raise TemporaryError(f"node {node}: no answer within {limit_s:g} s") from None
        finally:
            answer.cancel()
        if not isinstance(message, kind):
            raise TemporaryError(f"node {node}: answered with {type(message).__name__}")
        return message

    def _of(self, node: str) -> ExecutorSide:
        if node not in self._executors:
            self._executors[node] = ExecutorSide(
                node,
                watch=self._watch,
                emit=self._emit,
                term=self._term,
                now=self._now,
                keep=self._keep,
            )
        return self._executors[node]

    # ------------------------------------------------------------ the endpoints

    async def _executor(self, socket: WebSocket, node: str) -> None:
        if (drops := await self._admit(socket, node)) is None:
            return
        link = Link(socket, _EXECUTOR, node=node, process="executor")

        def opened(hello: Hello) -> None:
            self._check_still(node, drops)
            self._of(node).opened(link, hello)

        why = await link.run(
            self._welcome(),
            opened=opened,
            received=lambda message: self._of(node).received(link, message),
        )
        side = self._of(node)  # looked up each time: another's end forgets one without a link
        side.ended(link, why)
        if side.blank:
            self._executors.pop(node, None)

    async def _daemon(self, socket: WebSocket, node: str) -> None:
        if (drops := await self._admit(socket, node)) is None:
            return
        link = Link(socket, _DAEMON, node=node, process="daemon")

        def opened(hello: Hello) -> None:
            self._check_still(node, drops)
            self.daemons.opened(node, link, hello)

        why = await link.run(
            self._welcome(),
            opened=opened,
            received=lambda message: self.daemons.received(node, link, message),
        )
        self.daemons.ended(node, link, why)

    async def _admit(self, socket: WebSocket, node: str) -> int | None:
        """How often the node was dropped before; None where it is refused."""
        try:
            why = await self._refusal(node, bearer(socket.headers.get("authorization")))
        except TemporaryError as unknown:
            if self._is_news("", str(unknown)):
                _log.warning("nodes not known yet", why=str(unknown))
            await _deny(socket, 503, "not known now", f"{unknown}. Try again.")
            return None
        if why:
            if self._is_news(node, why):
                _log.warning("node refused", node=node, why=why)
            await _deny(socket, 401, "not a node of this driver", f"Authorization: {why}.")
            return None
        drops = self._drops[node]
        await socket.accept()
        return drops

    def _check_still(self, node: str, drops: int) -> None:
        """Raise `Rejected` where the node was dropped since its peer was admitted."""
        if self._drops[node] != drops:
            raise Rejected("connection", f"its pod has lost node {node} since", "Connect again.")

    def _is_news(self, node: str, why: str) -> bool:
        """Whether to log it: not at each try, and who is refused may call itself what it likes."""
        if (node, why) in self._said:
            return False
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said.add((node, why))
        return True

    def _welcome(self) -> Welcome:
        return Welcome(
            term=self._term(),
            heartbeat_period_s=self._heartbeat_period_s,
            keeps_bytes=self._keeps_bytes,
        )


async def _deny(socket: WebSocket, status: int, title: str, detail: str) -> None:
    """Answer with a problem in place of a connection."""
    problem = {"title": title, "status": status, "detail": detail}
    await socket.send_denial_response(
        JSONResponse(problem, status_code=status, media_type="application/problem+json")
    )

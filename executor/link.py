"""The executor's one connection to the driver: kept, made again when it breaks, always whole.

Called by `executor.main`. What the driver should know is a state, not a stream: after each connect
the newest observation is sent again, and while there is no driver only the newest is kept.
"""

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import InvalidStatus, WebSocketException

from holdfast.executor.settings import Settings
from holdfast.kit.backoff import full_jitter
from holdfast.kit.logs import LazyLogger
from holdfast.kit.tls import reason, trusting
from holdfast.kit.together import until_first
from holdfast.protocol import nodeenv
from holdfast.protocol.leading import leader_of
from holdfast.protocol.messages import (
    MAX_FRAME_BYTES,
    AskLog,
    AskStacks,
    Desired,
    Hello,
    Message,
    Observed,
    Refused,
    ToExecutor,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, ProtocolError, encode

BASE_S = 0.1
OPEN_LIMIT_S = 5.0
UNACKNOWLEDGED_MS = 10_000
"""TCP gives a connection up when data was not acknowledged for so long: a half-open one shows."""

PING_EVERY_S = PING_WITHIN_S = 10.0
"""A driver that is stopped, or hangs, answers no ping, though its kernel acknowledges what is sent:
who stayed with it would never come to the one that leads instead. A driver may take seconds for a
turn of its event loop when a thousand nodes come at once.
"""

_log = LazyLogger()


class Served(Protocol):
    """Who is behind the link."""

    def hello(self) -> Hello: ...

    def observe(self) -> Observed:
        """All that is seen now, with a new sequence number."""
        ...

    def welcomed(self, welcome: Welcome) -> None: ...

    def instructed(self, desired: Desired) -> None: ...

    def asked(self, question: AskStacks | AskLog, answer: Callable[[Message], None]) -> None: ...


class Link:
    """`run` keeps the connection; `changed` has the newest observation sent soon."""

    def __init__(self, settings: Settings, served: Served) -> None:
        self._settings = settings
        self._urls = itertools.cycle(settings.driver_urls)
        self._leader = ""  # where a driver that stands by has sent us
        cap_s = nodeenv.longest_wait_s(settings.driver_urls)
        self._waits = partial(full_jitter, base_s=BASE_S, cap_s=cap_s)
        self._served = served
        self._decoder: Decoder[ToExecutor] = Decoder(ToExecutor)
        self._changed = asyncio.Event()
        self._outbox: list[Message] = []
        self._said: set[str] = set()  # why there is no driver, since there was one

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return trusting(self._settings.driver_ca)

    def changed(self) -> None:
        """There is something new to observe. Several calls before it is sent are one message."""
        self._changed.set()

    def answer(self, message: Message) -> None:
        """Send `message` if there is a driver: an answer to a question is no use to the next."""
        self._outbox.append(message)
        self._changed.set()

    async def run(self) -> None:
        """Connect, serve, and again, until cancelled."""
        waits = self._waits()
        while True:
            sent_on, self._leader = self._leader, ""
            url = sent_on or next(self._urls)
            try:
                async with self._connect(url) as connection:
                    if await self._greeted(connection):
                        waits = self._waits()
                        await self._serve(connection)
            except InvalidStatus as refused:
                self._say_no_driver(refused)
                self._leader = "" if sent_on else leader_of(refused.response.headers, asked=url)
            except (OSError, WebSocketException, ProtocolError, TimeoutError) as error:
                self._say_no_driver(error)
            if not self._leader:
                await asyncio.sleep(next(waits))

    def _say_no_driver(self, error: Exception) -> None:
        """Each reason once, not at each try."""
        why = reason(error)
        if why not in self._said:
            self._said.add(why)
            _log.warning("no driver", url=", ".join(self._settings.driver_urls), why=why)

    def _connect(self, url: str) -> AbstractAsyncContextManager[ClientConnection]:
        """Raises `OSError` where the token cannot be read."""
        path = f"/v1alpha1/nodes/{self._settings.node.name}/executor"
        options: dict[str, Any] = {
            "additional_headers": {"Authorization": f"Bearer {self._settings.token()}"},
            "compression": None,
            "ping_interval": PING_EVERY_S,
            "ping_timeout": PING_WITHIN_S,
            "max_size": MAX_FRAME_BYTES,
            "open_timeout": OPEN_LIMIT_S,
            "close_timeout": 1,
        }
        if url.startswith("unix:"):
            return unix_connect(url.removeprefix("unix:"), f"ws://localhost{path}", **options)
        if url.startswith("https://"):
            options["ssl"] = self._trust
        return connect(f"ws{url.removeprefix('http')}{path}", proxy=None, **options)

    async def _greeted(self, connection: ClientConnection) -> bool:
        _watch_the_peer(connection)
        await connection.send(encode(self._served.hello()))
        async with asyncio.timeout(OPEN_LIMIT_S):
            first = self._decoder.decode(await connection.recv())
        if isinstance(first, Welcome):
            self._served.welcomed(first)
            return True
        _log.error("the driver refused this executor", answer=str(first))
        return False

    async def _serve(self, connection: ClientConnection) -> None:
        self._outbox.clear()
        self._said.clear()
        self._changed.set()
        try:
            await until_first(self._send(connection), self._receive(connection))
        except (OSError, WebSocketException) as lost:
            _log.info("connection lost", why=str(lost))

    async def _send(self, connection: ClientConnection) -> None:
        last: Observed | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            outbox, self._outbox = self._outbox, []
            for message in outbox:
                await connection.send(encode(message))
            now = self._served.observe()
            if last is None or not _same(now, last):
                await connection.send(encode(now))
                last = now

    async def _receive(self, connection: ClientConnection) -> None:
        async for frame in connection:
            try:
                message = self._decoder.decode(frame)
            except ProtocolError as error:
                self.answer(
                    Refused(
                        what="frame",
                        why=str(error),
                        fix=f"Send messages of protocol {PROTOCOL_VERSION}.",
                    )
                )
                continue
            match message:
                case Desired():
                    self._served.instructed(message)
                case AskStacks() | AskLog():
                    self._served.asked(message, self.answer)
                case Refused():
                    _log.warning("the driver refused", what=message.what, why=message.why)
                case Welcome():
                    continue
        raise ConnectionError("the driver closed the connection")


def _same(now: Observed, before: Observed) -> bool:
    names = (name for name in Observed.__struct_fields__ if name != "sequence")
    return all(getattr(now, name) == getattr(before, name) for name in names)


def _watch_the_peer(connection: ClientConnection) -> None:
    sock = connection.transport.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

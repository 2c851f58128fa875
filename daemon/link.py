"""The daemon's connection to the driver: kept, made again with jitter, and known to be alive.

Used by the daemon's loop. A driver that is away is nothing to worry about: what was not
acknowledged is told again. Must not decide what is said.
"""

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cached_property, partial
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import InvalidStatus

from holdfast.daemon.settings import Settings
from holdfast.kit.backoff import full_jitter
from holdfast.kit.logs import LazyLogger
from holdfast.kit.tls import reason, trusting
from holdfast.protocol import nodeenv
from holdfast.protocol.leading import leader_of
from holdfast.protocol.messages import (
    MAX_FRAME_BYTES,
    Hello,
    Message,
    Refused,
    ToDaemon,
    Welcome,
)
from holdfast.protocol.wire import Decoder, ProtocolError, encode

USER_TIMEOUT_MS = 5_000
"""Unacknowledged data ends a connection after this, instead of the kernel's quarter of an hour."""
OPEN_TIMEOUT_S = 5.0
BASE_S = 0.1

Received = Callable[[ToDaemon], Awaitable[None]]

_log = LazyLogger()
_DECODER: Decoder[ToDaemon] = Decoder(ToDaemon)


class Away(Exception):
    """The driver is not there, or would not have us; the message says why."""


class Link:
    """One WebSocket at a time; `send` while there is none says so by returning False."""

    def __init__(self, settings: Settings, hello: Hello) -> None:
        self._settings = settings
        self._urls = itertools.cycle(settings.driver_urls)
        self._leader = ""  # where a driver that stands by has sent us
        cap_s = nodeenv.longest_wait_s(settings.driver_urls)
        self._waits = partial(full_jitter, base_s=BASE_S, cap_s=cap_s)
        self._hello = hello
        self._socket: ClientConnection | None = None
        self._said: set[str] = set()  # why there is no driver, since there was one

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return trusting(self._settings.driver_ca)

    async def run(self, received: Received) -> None:
        """For ever: connect, greet, hand on what comes; wait a little when it ends."""
        waits = self._waits()
        while True:
            sent_on, self._leader = self._leader, ""
            url = sent_on or next(self._urls)
            try:
                async with self._open(url, received) as connection:
                    waits = self._waits()
                    self._said.clear()
                    async for frame in connection:
                        await received(_DECODER.decode(frame))
            except InvalidStatus as refused:
                self._say_away(str(refused))
                self._leader = "" if sent_on else leader_of(refused.response.headers, asked=url)
            except (Away, ProtocolError, OSError, websockets.WebSocketException) as error:
                self._say_away(reason(error))
            if not self._leader:
                await asyncio.sleep(next(waits))

    def _say_away(self, why: str) -> None:
        """Each reason once, not at each try."""
        if why not in self._said:
            self._said.add(why)
            _log.info("driver away", why=why)

    async def send(self, message: Message) -> bool:
        """Send, or say that there is nobody to send to."""
        if self._socket is None:
            return False
        try:
            await self._socket.send(encode(message))
        except websockets.ConnectionClosed:
            return False
        return True

    def give_up(self) -> None:
        """The connection looks alive and is not: drop it, so that `run` makes another."""
        if self._socket is not None:
            self._socket.transport.abort()

    @contextlib.asynccontextmanager
    async def _open(self, url: str, received: Received) -> AsyncIterator[ClientConnection]:
        async with self._connect(url) as connection:
            _set_user_timeout(connection)
            await connection.send(encode(self._hello))
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                answer = _DECODER.decode(await connection.recv())
            if isinstance(answer, Refused):
                raise Away(f"{answer.what}: {answer.why} {answer.fix}".strip())
            if not isinstance(answer, Welcome):
                raise Away(f"answered {type(answer).__name__} to Hello, not Welcome")
            self._socket = connection
            await received(answer)
            try:
                yield connection
            finally:
                self._socket = None

    def _connect(self, url: str) -> connect:
        path = f"/v1alpha1/nodes/{self._settings.node}/daemon"
        options: dict[str, Any] = {
            "additional_headers": {"Authorization": f"Bearer {self._settings.token()}"},
            "compression": None,
            "max_size": MAX_FRAME_BYTES,
            "open_timeout": OPEN_TIMEOUT_S,
            "ping_interval": None,
        }
        if url.startswith("unix:"):
            return unix_connect(url.removeprefix("unix:"), f"ws://driver{path}", **options)
        if url.startswith("https://"):
            options["ssl"] = self._trust
        return connect(f"ws{url.removeprefix('http')}{path}", proxy=None, **options)


def _set_user_timeout(connection: ClientConnection) -> None:
    raw = connection.transport.get_extra_info("socket")
    if raw is not None and raw.family != socket.AF_UNIX:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)

"""The driver's application on its sockets: TCP, with TLS or without, and the Unix socket.

Used by `driver.main`, for a driver that leads and for one that waits. Must not know what is served.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from holdfast.driver.serve.handshakes import Handshakes
from holdfast.driver.serve.http_connection import Connection
from holdfast.driver.serve.listening import BACKLOG
from holdfast.driver.serve.web_socket import NodeSocket
from holdfast.protocol.messages import MAX_FRAME_BYTES

GRACE_S = 1
"""How long requests under way may take at the end; streams of events never end by themselves."""

ACCEPTED_AT_ONCE = 32
"""In one turn of the event loop, of those that wait in the socket's queue: a thousand handshakes in
one turn would hold up everything else for a second."""

TLS_READ_BYTES = 4 * 1_024
"""Most that nodes say is less. asyncio would keep 256 KiB beside each of a node's two connections
to read into, which for a thousand nodes is half a gigabyte
(docs/decisions/when-many-nodes-reconnect.md).
"""


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn takes a WebSocket that we refuse, with an answer, for a mistake of ours."""
    return record.msg != "ASGI callable returned without completing handshake."


logging.getLogger("uvicorn.error").addFilter(_is_news)


class Server(uvicorn.Server):
    """uvicorn, but signals are ours: it would raise them again and skip our own end.

    With `tls`, that is spoken on TCP and nothing else; who is on this machine needs none.
    """

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(server_config(app))
        self._tls = tls
        if tls:
            SSLProtocol.max_size = TLS_READ_BYTES
        self._handshakes: list[Handshakes] = []
        self.servers = []
        self.told = asyncio.Event()
        """Somebody wants this driver to end, which is not all that ends a server."""

    def tell(self) -> None:
        """End, and the driver with it."""
        self.told.set()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until told to end, or cancelled: then, too, nobody stays connected to who serves no more,
        however long this process has yet to wait for others.
        """
        try:
            await super().serve(sockets)
        finally:
            for each in self._handshakes:
                each.close()
            for server in self.servers:
                server.close()
            for connection in tuple(self.server_state.connections):
                connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn would accept whoever comes, and knows one context for all its sockets."""
        plain = []
        for each in sockets or ():
            if self._tls and each.family != socket.AF_UNIX:
                self._handshakes.append(Handshakes(each, self._tls, self._connection))
            else:
                plain.append(each)
        await super().startup(plain)
        for each in plain:
            each.listen(BACKLOG)  # which uvicorn made as short as what it accepts at a time

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._handshakes:
            each.close()
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        """As uvicorn makes it for its own servers."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def server_config(app: ASGIApp) -> uvicorn.Config:
    """How the application is served; what is said of WebSockets was measured (ecosystem.md)."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        log_config=None,
        access_log=False,
        lifespan="off",
        http=Connection,
        proxy_headers=False,  # nothing that a peer says of others is believed
        ws=NodeSocket,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        ws_max_size=2 * MAX_FRAME_BYTES,  # a little more, so that the refusal can be ours
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
    )

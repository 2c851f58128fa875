"""What a driver keeps for each node that is connected with TLS."""

import asyncio
import socket
import ssl
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from authorities import CA, NOW, WallClock
from fastapi import FastAPI
from waiting import DEADLINE_S

from holdfast.driver.adapters.authority import Issued
from holdfast.driver.serve.server import TLS_READ_BYTES, Server
from holdfast.driver.serve.tls import Tls
from holdfast.kit.tls import trusting

CONNECTIONS = 8
ASKED = b"GET /nothing HTTP/1.1\r\nHost: driver\r\n\r\n"


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def answered(at: tuple[str, int], context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection that has been used, and stays."""
    with ExitStack() as opened:
        plain = opened.enter_context(socket.create_connection(at, timeout=DEADLINE_S))
        connection = opened.enter_context(context.wrap_socket(plain, server_hostname=at[0]))
        connection.sendall(ASKED)
        assert connection.recv(4_096).startswith(b"HTTP/1.1 404")
        opened.pop_all()
    return connection


async def test_a_connection_has_little_room_to_be_read_into() -> None:
    tls = Tls(Issued(CA, ("127.0.0.1",), WallClock(NOW)), ca=CA.certificate)
    listening, context = socket.create_server(("127.0.0.1", 0)), trusting(CA.certificate)
    server = Server(FastAPI(), tls.context)
    serving = asyncio.create_task(server.serve([listening]))
    at = listening.getsockname()
    try:
        with ExitStack() as clients, traced():
            clients.enter_context(await asyncio.to_thread(answered, at, context))
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(CONNECTIONS):
                clients.enter_context(await asyncio.to_thread(answered, at, context))
            kept = (tracemalloc.get_traced_memory()[0] - before) / CONNECTIONS
            assert len(server.server_state.connections) == 1 + CONNECTIONS, "they are still there"
        assert TLS_READ_BYTES < kept < 8 * TLS_READ_BYTES
    finally:
        server.should_exit = True
        await serving

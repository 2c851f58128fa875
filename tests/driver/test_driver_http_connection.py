"""Who says half of what he wants, or does not read what he asked for, on real sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.rest import body, problems
from holdfast.driver.serve.http_connection import Connection
from holdfast.driver.serve.server import Server, server_config

SOON_S = 1.0
MANY = 100
PIECE = b"x" * 16_384
HALF = b"GET /healthz HTTP/1.1\r\nHost: driver\r\nX-Half:"
WHOLE = b"GET %s HTTP/1.1\r\nHost: driver\r\n\r\n"
HIGH_WATER_BYTES = 65_536
"""Of asyncio's transports."""


def application() -> FastAPI:
    made = FastAPI()
    problems.install(made)

    @made.get("/healthz")
    async def healthz() -> str:
        return "ok"

    @made.get("/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield PIECE
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    @made.post("/body")
    async def take(request: Request) -> Any:
        return await body.read_json(request)

    return made


class Served:
    def __init__(self, server: Server, address: tuple[str, int]) -> None:
        self.server = server
        self.address = address

    def ask(self, data: bytes) -> socket.socket:
        """A client that has said this, and reads only when it is asked to."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(self.address)
        client.sendall(data)
        return client

    async def answers(self) -> None:
        """It does, to who says in time what he wants, which a busy machine may prevent."""
        url = "http://{}:{}/healthz".format(*self.address)
        async with (
            asyncio.timeout(DEADLINE_S),
            httpx.AsyncClient(trust_env=False, verify=False, timeout=DEADLINE_S) as client,
        ):
            while (await client.get(url)).status_code == 408:
                pass


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(Connection, "head_s", SOON_S)
    monkeypatch.setattr(Connection, "unread_s", SOON_S)
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(application())
    task = asyncio.create_task(server.serve([listening]))
    try:
        await eventually_async(lambda: server.started)
        yield Served(server, listening.getsockname())
    finally:
        server.should_exit = True
        await task
        listening.close()


@contextlib.contextmanager
def asking(served: Served, data: bytes) -> Iterator[list[socket.socket]]:
    clients = [served.ask(data) for _ in range(MANY)]
    try:
        yield clients
    finally:
        for each in clients:
            each.close()


async def read_to_end(client: socket.socket) -> bytes:
    client.setblocking(False)
    got = b""
    async with asyncio.timeout(DEADLINE_S):
        while piece := await asyncio.get_running_loop().sock_recv(client, 65_536):
            got += piece
    return got


async def test_a_head_that_does_not_come_is_not_waited_for(served: Served) -> None:
    with asking(served, HALF) as clients:
        await served.answers()
        for each in clients:
            got = await read_to_end(each)
            assert got.startswith(b"HTTP/1.1 408 ")
            assert b"The head of the request did not come within 1 s." in got


async def test_nor_is_the_next_head_of_a_connection(served: Served) -> None:
    with contextlib.closing(served.ask(WHOLE % b"/healthz" + HALF)) as client:
        got = await read_to_end(client)
        assert got.startswith(b"HTTP/1.1 200 ")


async def test_nor_a_body(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "WITHIN_S", SOON_S)
    head = b"POST /body HTTP/1.1\r\nHost: driver\r\nContent-Length: 100\r\n\r\n{"
    with contextlib.closing(served.ask(head)) as client:
        got = await read_to_end(client)
        assert got.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not come within 1 s" in got


async def test_who_reads_nothing_is_dropped_and_costs_little_until_then(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    drop = Connection._drop

    def noting(self: Connection) -> None:
        kept.append(self.transport.get_write_buffer_size())
        drop(self)

    monkeypatch.setattr(Connection, "_drop", noting)
    with asking(served, WHOLE % b"/endless"):
        await served.answers()
        await eventually_async(lambda: len(kept) == MANY)
        await eventually_async(lambda: not served.server.server_state.connections)
        assert 0 < max(kept) <= HIGH_WATER_BYTES + 2 * len(PIECE)
        await served.answers()


# ---------------------------------------------------------------- in virtual time


class Sink(asyncio.Transport):
    """Where a connection writes; nobody reads."""

    aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol  # type: ignore[attr-defined, no-any-return]

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def write(self, data: bytes) -> None:  # type: ignore[override]
        pass

    def close(self) -> None:
        self.aborted = True


def connected() -> tuple[Connection, Sink]:
    config = server_config(FastAPI())
    config.load()
    from uvicorn.server import ServerState

    connection, sink = Connection(config, ServerState(), {}), Sink()
    sink.protocol = connection  # type: ignore[attr-defined]
    connection.connection_made(sink)
    connection.scope = {"path": "/"}  # type: ignore[typeddict-item]
    return connection, sink


@pytest.mark.looptime
async def test_who_reads_a_little_now_and_then_stays() -> None:
    connection, sink = connected()
    connection._has_head()
    for _ in range(10):
        connection.pause_writing()
        await asyncio.sleep(0.9 * connection.unread_s)
        connection.resume_writing()
    assert not sink.aborted
    connection.pause_writing()
    await asyncio.sleep(1.1 * connection.unread_s)
    assert sink.aborted


@pytest.mark.looptime
async def test_a_head_that_drips_is_not_waited_for_longer() -> None:
    connection, sink = connected()
    for letter in HALF:
        connection.data_received(bytes([letter]))
        await asyncio.sleep(connection.head_s / 20)
    assert sink.aborted

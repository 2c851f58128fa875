"""Fixtures for the driver's tests."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cuttable import Cuttable, cuttable
from fastapi import FastAPI
from in_memory import folder_in_memory
from postgres import Postgres, running_postgres
from sharing_drivers import MakeDriver, sharing_drivers
from starlette.types import ASGIApp
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.client import ClientConnection, connect

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.sql.postgres import open_postgres
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.adapters.websocket.daemons import Emit
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.ports import Taken
from holdfast.driver.serve.server import Server
from holdfast.protocol.messages import Heartbeat, Hello, ToDaemon, ToExecutor, Welcome
from holdfast.protocol.wire import Decoder, encode


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests; each takes a database of its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
async def relay(postgres: Postgres) -> AsyncIterator[Cuttable]:
    """A way to the database that can be cut."""
    async with cuttable("127.0.0.1", postgres.port) as made:
        yield made


@pytest.fixture
def sharing(postgres: Postgres, database: str, tmp_path: Path) -> Iterator[MakeDriver]:
    """Makes drivers on one journal."""
    with sharing_drivers(postgres, database, tmp_path) as make:
        yield make


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[SqlJournal]]:
    """Two journals on one store, as two drivers would have it; neither has taken a term."""
    if request.param == "sqlite":
        journals = [open_sqlite(tmp_path / "journal.sqlite") for _ in range(2)]
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.url(server.new_database())
        journals = [open_postgres(url) for _ in range(2)]
    yield journals
    for each in journals:
        each.close()


@pytest.fixture
def journal(opened: list[SqlJournal]) -> SqlJournal:
    """Of a driver that has term 1."""
    assert opened[0].take_over() == Taken(term=1, state=None, sequence=0, now=0.0)
    return opened[0]


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Callable[[str], SqlJournal]]:
    opened: list[SqlJournal] = []

    def open_named(name: str = "journal") -> SqlJournal:
        opened.append(open_sqlite(tmp_path / f"{name}.sqlite", reserve_bytes=1 << 16))
        return opened[-1]

    yield open_named
    for each in opened:
        each.close()


@pytest.fixture
def serve() -> Callable[[ASGIApp], AbstractAsyncContextManager[str]]:
    """Serve an application as the driver does; gives `127.0.0.1:PORT`."""

    @asynccontextmanager
    async def serving(app: ASGIApp) -> AsyncIterator[str]:
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(app)
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task

    return serving


NODE_TOKEN = "node-token-of-the-test"


class RecordingWatch:
    """Notes what the detectors would be told; concludes what the test puts into `conclusions`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.conclusions: list[AnyEvent] = []

    def connected(self, node: str, process: str, now: float) -> None:
        self.calls.append(("connected", node, process))

    def disconnected(self, node: str, process: str, now: float, why: str) -> None:
        self.calls.append(("disconnected", node, process))

    def gone(self, node: str, now: float) -> None:
        self.calls.append(("gone", node))

    def heard(self, heartbeat: Heartbeat, now: float) -> list[AnyEvent]:
        self.calls.append(("heard", heartbeat.sequence))
        return self.conclusions

    def observed(self, seen: Any) -> list[Any]:
        return []

    def completed_step(self, job: str) -> int | None:
        return 41

    def saved_steps(self, job: str) -> int:
        return 0


class Edge:
    """The server, its recorders, and clients of it."""

    def __init__(self, address: str, sessions: Sessions, watch: RecordingWatch) -> None:
        self.address = address
        self.sessions = sessions
        self.watch = watch
        self.events: list[AnyEvent] = []

    def connect(
        self, process: str = "executor", *, node: str = "n0", token: str = NODE_TOKEN
    ) -> connect:
        return connect(
            f"ws://{self.address}/v1alpha1/nodes/{node}/{process}",
            additional_headers={"Authorization": f"Bearer {token}"},
            compression=None,
            proxy=None,
            ping_interval=None,
            max_size=None,
        )

    @asynccontextmanager
    async def greeted(self, hello: Hello) -> AsyncIterator[ClientConnection]:
        """A connection after its handshake."""
        async with self.connect(hello.process, node=hello.node) as client:
            await client.send(encode(hello))
            assert isinstance(await self.receive(client), Welcome)
            yield client

    async def seen(self, count: int) -> list[AnyEvent]:
        """The first `count` events, once there are so many."""
        await eventually_async(lambda: len(self.events) >= count)
        return self.events

    @staticmethod
    async def receive(client: ClientConnection, within_s: float = DEADLINE_S) -> Any:
        frame = await asyncio.wait_for(client.recv(decode=False), within_s)
        kinds = ToDaemon if client.request.path.endswith("daemon") else ToExecutor  # type: ignore[union-attr]
        return Decoder[Any](kinds).decode(frame)


@pytest.fixture
def edge_of(
    serve: Callable[[ASGIApp], AbstractAsyncContextManager[str]],
) -> Callable[[Any, Emit], AbstractAsyncContextManager[Edge]]:
    """Serve sessions with these detectors, whose events go to `emit`."""

    @asynccontextmanager
    async def serving(watch: Any, emit: Emit) -> AsyncIterator[Edge]:
        sessions = Sessions(
            refusal=Tokens(user="a token of a person", node=NODE_TOKEN).refusal,
            watch=watch,
            emit=emit,
            term=lambda: 3,
            now=lambda: 0.0,
            heartbeat_period_s=0.25,
        )
        async with serve(sessions.before(FastAPI())) as address:
            yield Edge(address, sessions, watch)

    return serving


@pytest.fixture
async def edge(
    edge_of: Callable[[Any, Emit], AbstractAsyncContextManager[Edge]],
) -> AsyncIterator[Edge]:
    events: list[AnyEvent] = []

    def emit(event: AnyEvent, done: Callable[[], None] | None = None) -> None:
        events.append(event)
        if done is not None:
            done()

    async with edge_of(RecordingWatch(), emit) as made:
        made.events = events
        yield made

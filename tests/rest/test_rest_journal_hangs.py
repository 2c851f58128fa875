"""While a commit does not return, nodes are heard and answered, and viewers are served or dropped.

The commit hangs on the journal's own thread, as on a disk that does not answer.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.driver.conftest import NODE_TOKEN, Edge
from tests.rest.conftest import Driver
from tests.rest.test_rest_crowd import PAGES, SOCKET_BYTES, Long, views
from tests.rest.test_rest_pages import pages_of
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.rest.pages import PAGE_ENTRIES
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.core.events import Found, NodeAppeared
from holdfast.driver.serve.http_connection import Connection
from holdfast.driver.serve.server import Server
from holdfast.driver.watch import Watch
from holdfast.protocol.messages import Acknowledged, Heartbeat, Hello, LogHit
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

BEATS = 20
XID = LogHit(source="kernel", rule="xid", line="NVRM: Xid (PCI:0000:3b:00): 79", xid=79)


class Hanging:
    """Has the journal's next commits hang until they are let go."""

    def __init__(self, journal: SqlJournal) -> None:
        self._write = journal._write
        self.begun, self.goes_on = threading.Event(), threading.Event()
        journal._write = self._hang  # type: ignore[method-assign]

    def _hang(self, commit: Any) -> None:
        self.begun.set()
        assert self.goes_on.wait(DEADLINE_S)
        self._write(commit)


class Hung(Edge):
    """A driver at a port, whose journal hangs while it is about to write that `late` came."""

    def __init__(self, driver: Driver, address: str, sessions: Sessions) -> None:
        super().__init__(address, sessions, None)  # type: ignore[arg-type]
        self.driver = driver
        self.hanging: Hanging

    async def hang(self) -> None:
        self.hanging = Hanging(self.driver.control.journal)  # type: ignore[arg-type]
        self.driver.loop.post(NodeAppeared(node="late"))
        await asyncio.to_thread(self.hanging.begun.wait, DEADLINE_S)

    @property
    def hangs(self) -> bool:
        waits = not self.hanging.goes_on.is_set()
        return waits and "late" not in self.driver.loop.state.nodes

    async def beat(self, client: Any, sequence: int, *hits: LogHit) -> int:
        """Send a heartbeat of n0; how far it is answered."""
        beat = Heartbeat(node="n0", incarnation="i", sequence=sequence, uptime_s=1.0, logs=hits)
        await client.send(encode(beat))
        answer = await self.receive(client)
        assert isinstance(answer, Acknowledged)
        return answer.sequence


@pytest.fixture
async def hung(driver: Driver) -> AsyncIterator[Hung]:
    sessions = Sessions(
        refusal=Tokens(user="a token of a person", node=NODE_TOKEN).refusal,
        watch=Watch(),
        emit=driver.loop.post,
        term=lambda: driver.loop.state.term,
        now=driver.loop.now,
        heartbeat_period_s=0.25,
    )
    app = make_app(driver.control)
    app.state.pages = pages_of(Long(PAGES * PAGE_ENTRIES))
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    server = Server(sessions.before(app))
    task = asyncio.create_task(server.serve([listening]))
    await eventually_async(lambda: server.started)
    made = Hung(driver, "{}:{}".format(*listening.getsockname()), sessions)
    await driver.happened(NodeAppeared(node="n0"), NodeAppeared(node="n1"))
    yield made
    made.hanging.goes_on.set()
    await eventually_async(lambda: "late" in driver.loop.state.nodes)
    server.should_exit = True
    await task
    listening.close()


def hello(node: str, process: str) -> Hello:
    return Hello(protocol=PROTOCOL_VERSION, process=process, node=node, incarnation="i")


async def test_heartbeats_are_answered_and_a_fault_is_kept_for_the_journal(hung: Hung) -> None:
    async with hung.greeted(hello("n0", "daemon")) as daemon:
        await hung.hang()
        for sequence in range(1, BEATS + 1):
            assert await hung.beat(daemon, sequence) == sequence
        assert await hung.beat(daemon, BEATS + 1, XID) == BEATS, "it is not in the journal"
        assert await hung.beat(daemon, BEATS + 2) == BEATS
        assert hung.hangs
        hung.hanging.goes_on.set()
        await eventually_async(lambda: "late" in hung.driver.loop.state.nodes)
        entries = hung.driver.control.journal.entries
        await eventually_async(lambda: any(isinstance(e.event, Found) for e in entries()))
        assert await hung.beat(daemon, BEATS + 3) == BEATS + 3


@pytest.mark.parametrize("process", ["executor", "daemon"])
async def test_who_connects_is_welcomed(hung: Hung, process: str) -> None:
    await hung.hang()
    async with hung.greeted(hello("n1", process)):
        assert hung.hangs


async def test_a_viewer_that_reads_is_served_and_one_that_does_not_is_dropped_with_a_sentence(
    hung: Hung, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hung.hang()
    host, port = hung.address.split(":")
    with capture_logs() as said, contextlib.ExitStack() as left:
        reads = await asyncio.to_thread(views, (host, int(port)), token)
        left.callback(reads.close)
        await asyncio.to_thread(read_up_to, reads, b"%d " % (PAGES * PAGE_ENTRIES))
        monkeypatch.setattr(Connection, "unread_s", 0.1)
        left.callback((await asyncio.to_thread(views, (host, int(port)), token)).close)
        await eventually_async(lambda: any(each["event"] == "reader dropped" for each in said))
        (dropped,) = [each["why"] for each in said if each["event"] == "reader dropped"]
        assert dropped == "who asked for it has read nothing for 0.1 s"
        assert hung.hangs


def read_up_to(viewer: socket.socket, last: bytes) -> None:
    viewer.settimeout(DEADLINE_S)
    got = b""
    while last not in got:
        got += viewer.recv(65_536)

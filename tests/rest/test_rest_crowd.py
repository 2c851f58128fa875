"""A crowd that asks for the journal and does not read: what it costs has a bound, nobody waits."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_pages import Counting, pages_of
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.rest.pages import PAGE_ENTRIES
from holdfast.driver.ports import Entry
from holdfast.driver.serve.http_connection import Connection
from holdfast.driver.serve.server import Server

VIEWERS = 1_000
ENTRY_BYTES = 256
PAGE_BYTES = PAGE_ENTRIES * ENTRY_BYTES
PAGES = 20
SOCKET_BYTES = 4_096
"""Of each socket's buffers in the kernel, so that they take little of the journal."""
HIGH_WATER_BYTES = 65_536
"""Of asyncio's transports."""


class Long(Counting):
    """Its entries are as long as true ones."""

    def write(self, entry: Entry) -> bytes:
        return super().write(entry).ljust(ENTRY_BYTES)


@pytest.fixture
async def crowded(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """The driver's application, whose journal is long; who does not read is borne with."""
    monkeypatch.setattr(Connection, "unread_s", DEADLINE_S)
    monkeypatch.setattr(Connection, "head_s", DEADLINE_S)
    app = make_app(driver.control)
    app.state.pages = pages_of(Long(PAGES * PAGE_ENTRIES))
    listening = socket.create_server(("127.0.0.1", 0), backlog=VIEWERS)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    driver.http.base_url = "http://{}:{}".format(*listening.getsockname())  # type: ignore[assignment]
    server = Server(app)
    task = asyncio.create_task(server.serve([listening]))
    await eventually_async(lambda: server.started)
    yield server
    server.should_exit = True
    await task
    listening.close()


def views(address: tuple[str, int], token: str) -> socket.socket:
    """One who asks for all events, and reads none."""
    viewer = socket.socket()
    viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    viewer.connect(address)
    head = f"GET /v1alpha1/events HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer {token}\r\n\r\n"
    viewer.sendall(head.encode())
    return viewer


def filled(server: Server) -> bool:
    """Whether the kernel takes no more for any of them: it took a little of what had piled up."""
    return sum(size > HIGH_WATER_BYTES // 2 for size in waiting_bytes(server)) == VIEWERS


def waiting_bytes(server: Server) -> list[int]:
    """What waits in the driver for each connection's client."""
    return [each.transport.get_write_buffer_size() for each in server.server_state.connections]


async def test_viewers_that_do_not_read_cost_a_bounded_amount_each_and_hold_nobody_up(
    driver: Driver, crowded: Server, token: str
) -> None:
    url = driver.http.base_url
    with contextlib.ExitStack() as left:
        for _ in range(VIEWERS):
            viewer = await asyncio.to_thread(views, (url.host, url.port or 0), token)
            left.callback(viewer.close)
        await eventually_async(lambda: filled(crowded), "none of them reads")
        for _ in range(10):
            assert (await driver.http.get("/v1alpha1/jobs")).status_code == 200
        assert max(waiting_bytes(crowded)) <= HIGH_WATER_BYTES + 2 * PAGE_BYTES

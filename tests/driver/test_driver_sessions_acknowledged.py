"""What a daemon says is acknowledged once it cannot be lost, for then the daemon forgets it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from driver_loops import POLICY, Flaky, idle
from msgspec.structs import replace
from waiting import eventually_async
from websockets.asyncio.client import ClientConnection

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.core.events import Found, NodeAppeared
from holdfast.driver.loop import Loop
from holdfast.driver.watch import Watch
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Acknowledged, Heartbeat, Hello, LogHit
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

HELLO = Hello(protocol=PROTOCOL_VERSION, process="daemon", node="n0", incarnation="i1")
RESTARTED = replace(HELLO, incarnation="i2")
XID = LogHit(source="kernel", rule="xid", line="NVRM: Xid (PCI:0000:3b:00): 79", xid=79)

AWAY = 1_000_000
"""Commits that fail: all of a test's."""


class World:
    """A driver's loop on a journal that may be away, and the daemons' side before it."""

    def __init__(self, journal: Flaky, loop: Loop, edge: Any) -> None:
        self.journal = journal
        self.loop = loop
        self.greeted: Callable[[Hello], AbstractAsyncContextManager[ClientConnection]]
        self.greeted, self._receive = edge.greeted, edge.receive

    async def beat(
        self, client: ClientConnection, sequence: int, *hits: LogHit, incarnation: str = "i1"
    ) -> int:
        """Send a heartbeat; how far its daemon is answered."""
        beat = Heartbeat(
            node="n0", incarnation=incarnation, sequence=sequence, uptime_s=1.0, logs=hits
        )
        await client.send(encode(beat))
        answer = await self._receive(client)
        assert isinstance(answer, Acknowledged)
        return answer.sequence

    def found(self) -> int:
        """Faults that are in the journal."""
        entries = self.journal.entries(after=0, limit=100)
        return sum(isinstance(each.event, Found) for each in entries)


Driver = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
def driver(
    open_journal: Callable[[str], SqlJournal], edge_of: Any, monkeypatch: pytest.MonkeyPatch
) -> Driver:
    """A driver that knows no node; its successors have the same journal."""
    monkeypatch.setattr("holdfast.driver.batch.commit.COMMIT_AGAIN_S", 0.01)

    @asynccontextmanager
    async def running() -> AsyncIterator[World]:
        journal = Flaky(open_journal("journal"))
        loop = Loop(journal, clock=SystemClock(), policy=POLICY)
        async with asyncio.TaskGroup() as group, edge_of(Watch(), loop.post) as edge:
            task = await idle(loop, group)
            yield World(journal, loop, edge)
            task.cancel()

    return running


async def know(world: World, node: str) -> None:
    """Have the node in the journal, then have the journal go away."""
    world.loop.post(NodeAppeared(node=node))
    await eventually_async(lambda: node in world.loop.state.nodes)
    world.journal.failures = AWAY


async def test_a_fault_is_acknowledged_once_it_is_in_the_journal(driver: Driver) -> None:
    async with driver() as world, world.greeted(HELLO) as client:
        await know(world, "n0")
        assert await world.beat(client, 1, XID) < 1
        assert await world.beat(client, 2, XID) < 1, "nor by the one that repeats it"
        assert world.found() == 0
        before, world.journal.failures = world.loop.sequence, 0
        await eventually_async(lambda: world.loop.sequence > before)
        assert world.found() == 1
        assert await world.beat(client, 3, XID) == 3


async def test_what_comes_after_a_fault_waits_and_what_came_before_does_not(
    driver: Driver,
) -> None:
    async with driver() as world, world.greeted(HELLO) as client:
        await know(world, "n0")
        assert await world.beat(client, 1) == 1
        assert await world.beat(client, 2, XID) == 1
        assert await world.beat(client, 3) == 1
        assert await world.beat(client, 1) == 1, "a late one"


async def test_the_next_driver_hears_of_a_fault_that_was_lost_with_the_one_before(
    driver: Driver,
) -> None:
    async with driver() as world, world.greeted(HELLO) as client:
        await know(world, "n0")
        unsaid = (XID,) if await world.beat(client, 1, XID) < 1 else ()  # as a daemon keeps them
    async with driver() as world, world.greeted(HELLO) as client:
        await world.beat(client, 2, *unsaid)
        await eventually_async(lambda: world.found() == 1)


@pytest.mark.parametrize(("hello", "answered"), [(HELLO, 0), (RESTARTED, 2)], ids=["same", "new"])
async def test_a_reconnect_acknowledges_nothing_early_and_a_new_daemon_begins_anew(
    driver: Driver, hello: Hello, answered: int
) -> None:
    async with driver() as world:
        async with world.greeted(HELLO) as client:
            await know(world, "n0")
            assert await world.beat(client, 1, XID) == 0
        async with world.greeted(hello) as client:
            assert await world.beat(client, 2, incarnation=hello.incarnation) == answered


async def test_what_leads_to_nothing_is_acknowledged_too(driver: Driver) -> None:
    """Of a node that the cluster does not know."""
    async with driver() as world, world.greeted(HELLO) as client:
        first = await world.beat(client, 1, XID)
        await know(world, "n1")  # the loop has decided all that came before
        assert first < 1
        assert await world.beat(client, 2, XID) == 2
        assert world.found() == 0

"""What every local `Cluster` promises, held by a real keeper, and broken by each broken one."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from cluster_contract import PROMISES, of_trials
from waiting import DEADLINE_S

from holdfast.driver.adapters import local_cluster
from holdfast.driver.adapters.local_cluster import LocalCluster
from holdfast.driver.ports import Fact, PermanentError, TemporaryError
from holdfast.protocol import keeping

NODES = ("node-1", "node-2")
HERE = [*PROMISES, of_trials]


class InMemory:
    """A cluster of two nodes in a dictionary. `broken` is the promise that it does not keep."""

    def __init__(self, broken: str = "") -> None:
        self._broken = broken
        self._holders: dict[str, str] = {"node-1": "", "node-2": ""}
        self._distrusted: dict[str, str] = {}
        self._listeners: list[asyncio.Queue[Fact]] = []

    async def facts(self) -> AsyncIterator[Fact]:
        changes: asyncio.Queue[Fact] = asyncio.Queue()
        self._listeners.append(changes)
        names = list(self._holders)
        for name in names[:1] if self._broken == "tells one node only" else names:
            yield self._fact(name)
        while True:
            yield await changes.get()

    async def allocate(self, job: str, node: str) -> None:
        if node not in self._holders and self._broken != "knows no names":
            raise PermanentError(f"node: {node!r} is not one of {list(self._holders)}")
        if node in self._distrusted and self._broken != "gives what is distrusted":
            raise PermanentError(self._distrusted[node])
        holder = self._holders.get(node, "")
        if holder not in ("", job) and self._broken != "gives to two":
            raise TemporaryError(f"node: {node} is held by {holder}")
        self._holders[node] = job

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        if self._broken == "tests nothing that is distrusted":
            await self.allocate(job, node)
        self._holders[node] = job

    def give_up(self, node: str) -> None:
        if self._broken == "gives up what is held":
            self._holders[node] = ""

    async def release(self, node: str) -> None:
        if self._holders[node] == "" and self._broken == "releases once":
            raise PermanentError("not held")
        if self._broken != "never releases":
            self._holders[node] = ""

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        self._distrusted[node] = reason
        self._tell(node)

    async def trust(self, node: str) -> None:
        if self._broken != "never trusts":
            self._distrusted.pop(node, None)
        self._tell(node)

    def _tell(self, node: str) -> None:
        if self._broken != "tells no change":
            for listener in self._listeners:
                listener.put_nowait(self._fact(node))

    def _fact(self, node: str) -> Fact:
        why = "" if self._broken == "gives no reason" else self._distrusted.get(node, "")
        return Fact(node=node, distrusted=node in self._distrusted, why=why)


@pytest.mark.parametrize("promise", HERE, ids=lambda promise: promise.__name__)
async def test_in_memory_keeps(promise):
    await promise(InMemory(), NODES)


@pytest.mark.parametrize(
    "broken",
    [
        "tells one node only",
        "knows no names",
        "gives what is distrusted",
        "gives to two",
        "releases once",
        "never releases",
        "gives up what is held",
        "never trusts",
        "gives no reason",
        "tells no change",
        "tests nothing that is distrusted",
    ],
)
async def test_a_cluster_that_breaks_a_promise_is_caught(broken):
    caught = []
    for promise in HERE:
        try:
            async with asyncio.timeout(0.3):
                await promise(InMemory(broken), NODES)
        except (
            AssertionError,
            pytest.fail.Exception,
            PermanentError,
            TemporaryError,
            TimeoutError,
        ):
            caught.append(promise.__name__)
    assert caught, f"no promise notices a cluster that {broken}"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that stands still for a moment has not broken a promise."""
    monkeypatch.setattr(local_cluster, "CALL_WITHIN_S", DEADLINE_S)


@pytest.mark.cluster
@pytest.mark.usefixtures("patient")
async def test_a_real_keeper_keeps_every_promise_and_answers_strangers(keeper):
    await asyncio.to_thread(keeper.start)
    for promise in HERE:
        await promise(LocalCluster(keeper.socket), NODES)
    assert "5000000 octets" in (await said_to(keeper.socket, struct.pack(">I", 5_000_000))).why
    assert "request" in (await said_to(keeper.socket, struct.pack(">I", 2) + b"\xc1\xc1")).why


@pytest.mark.cluster
@pytest.mark.usefixtures("patient")
async def test_facts_go_on_after_the_keeper_was_killed_and_marks_are_kept(keeper):
    await asyncio.to_thread(keeper.start)
    cluster = LocalCluster(keeper.socket)
    async with asyncio.timeout(DEADLINE_S), aclosing(cluster.facts()) as facts:
        told: set[str] = set()
        while told != set(NODES):
            told.add((await anext(facts)).node)
        await cluster.distrust("node-2", incident=1, reason="a lemon")
        await anext(facts)
        keeper.kill()
        with pytest.raises(TemporaryError, match="does not answer"):
            await cluster.trust("node-2")
        await asyncio.to_thread(keeper.start)
        again = {}
        while len(again) < 2:
            fact = await anext(facts)
            again[fact.node] = fact
    assert all(fact.present for fact in again.values()), "nothing is said before it is known"
    assert again["node-2"].why == "a lemon"


async def said_to(socket, octets: bytes) -> keeping.Failed:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(octets)
    head = await reader.readexactly(keeping.LENGTH.size)
    answer = keeping.answer_of(await reader.readexactly(keeping.body_length(head)))
    writer.close()
    assert isinstance(answer, keeping.Failed)
    assert answer.permanent
    return answer

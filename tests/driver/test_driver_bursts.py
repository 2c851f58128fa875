"""Bursts that an incident asks for: of which nodes, how often, what a node does wrong meanwhile.

Whatever comes of one, the driver goes on.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.core.state.model import Blame, Incident
from holdfast.driver.people import bursts
from holdfast.driver.people.bursts import MOST_AT_ONCE, REST_S, Bursts, Busy, chosen
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.clock import SystemClock
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import AskBurst, BurstTaken, Hello
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode
from holdfast.traces.bursts import kept
from holdfast.traces.bursts.record import Burst, Rail
from holdfast.traces.bursts.record import encode as encode_burst
from holdfast.traces.sinks.files import KEPT_S

HANG = Incident(
    id=1,
    opened=1,
    kind=Kind.HANG,
    blame=Blame.UNKNOWN,
    found_s=0.0,
    summary="rank 1 hangs",
    jobs=("speech",),
    nodes=("n2", "n0", "n1"),
    node="n0",
)
NODES = ("n0", "n1", "n2", "n3", "n4")


def record(node: str) -> bytes:
    rail = Rail(name="eth0", received=[1], sent=[2], errors=[0], drops=[0])
    return encode_burst(
        Burst(
            node=node, seconds=10, missed=0, cpu_s=0.1, degraded="", at_us=[0, 1_000], rails=[rail]
        )
    )


class Nodes:
    """Each answers once `going` is set, with what `said` has of it: bytes, or what is raised."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.said: dict[str, bytes | Exception] = {}
        self.going = asyncio.Event()
        self.going.set()

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        self.asked.append(node)
        await self.going.wait()
        said = self.said.get(node, record(node))
        if isinstance(said, Exception):
            raise said
        return said


class Told:
    """`Bursts` under test, its nodes, and the driver's time."""

    def __init__(self, root: Path) -> None:
        self.root, self.now_s, self.nodes = root, 1_000.0, Nodes()
        nodes: Any = self.nodes
        self.bursts = Bursts(nodes, root, SystemClock(), lambda: self.now_s)
        self._incidents: dict[int, Incident] = {}

    def show(self, *incidents: Incident) -> None:
        """A committed state that has these as well."""
        self._incidents |= {each.id: each for each in incidents}
        jobs = {"speech": SimpleNamespace(nodes=NODES)}
        state: Any = SimpleNamespace(incidents=dict(self._incidents), jobs=jobs)
        self.bursts.follow(state)

    def notes(self) -> list[kept.Note]:
        return kept.notes(self.root, "speech")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.bursts.run())
        yield
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


# ---------------------------------------------------------------- which nodes


def test_the_culprit_comes_first_and_one_that_is_healthy_last() -> None:
    assert chosen(HANG, NODES) == ["n0", "n2", "n1", "n3"]
    many = replace(HANG, nodes=("n1", "n2", "n3"))
    assert chosen(many, NODES) == ["n0", "n1", "n2", "n4"], "n3 is involved, and not healthy"
    assert chosen(replace(HANG, node=None, nodes=()), NODES) == ["n0", "n1", "n2", "n3"]
    assert chosen(replace(HANG, nodes=NODES), NODES) == ["n0", "n1", "n2"]
    assert chosen(replace(HANG, node=None, nodes=()), ()) == []


# ---------------------------------------------------------------- when


async def test_what_an_incident_asks_for_is_kept_with_why(told: Told) -> None:
    told.show()
    told.show(HANG)
    async with told.running():
        await eventually_async(lambda: len(told.notes()) == 4, "four are kept")
    assert told.nodes.asked == ["n0", "n2", "n1", "n3"]
    notes = told.notes()
    assert {each.node for each in notes} == {"n0", "n1", "n2", "n3"}
    assert [each.id for each in notes] == [1, 2, 3, 4]
    assert {(each.incident, each.why) for each in notes} == {(1, "incident 1: rank 1 hangs")}
    assert {(*each.rails, each.samples) for each in notes} == {("eth0", 2)}


async def test_incidents_that_are_old_or_of_other_things_ask_for_nothing(told: Told) -> None:
    told.show(HANG)
    told.show(HANG)
    told.show(replace(HANG, id=2, kind=Kind.RANK_CRASHED))
    told.show(replace(HANG, id=3, jobs=()), replace(HANG, id=4, jobs=("nobody",)))
    last = replace(HANG, id=5, node="n4", nodes=())
    told.show(last)
    async with told.running():
        await eventually_async(lambda: len(told.notes()) == 2, "those of the last are kept")
    assert told.nodes.asked == ["n4", "n0"]


async def test_a_node_is_asked_at_most_once_a_minute(told: Told) -> None:
    told.show()
    alone = replace(HANG, node="n0", nodes=NODES)
    told.show(alone)
    async with told.running():
        await eventually_async(lambda: len(told.notes()) == 3, "three are kept")
        told.now_s += REST_S - 1
        told.show(replace(alone, id=2))
        told.now_s += 1
        told.show(replace(alone, id=3))
        await eventually_async(lambda: len(told.notes()) == 6, "three more are kept")
    assert [each.incident for each in told.notes()] == [1, 1, 1, 3, 3, 3]


async def test_of_many_incidents_at_once_a_few_bursts_are_taken(told: Told) -> None:
    told.show()
    told.nodes.going.clear()
    lone = replace(HANG, node=None)
    told.show(*(replace(lone, id=at, nodes=(f"m{at}",)) for at in range(1, 500)))
    async with told.running():
        await eventually_async(lambda: len(told.nodes.asked) == MOST_AT_ONCE, "they are asked")
        told.nodes.going.set()
        await eventually_async(lambda: len(told.notes()) == MOST_AT_ONCE, "they are kept")
        told.show(replace(lone, id=500, nodes=("m500",)))
        await eventually_async(lambda: told.nodes.asked[-1] == "m500", "there is room again")


async def test_one_clock_says_when_those_of_persons_and_of_incidents_go(told: Told) -> None:
    """The driver's: that of the machine begins anew when it does."""
    told.show()
    told.show(replace(HANG, node="n0", nodes=NODES))
    async with told.running():
        await eventually_async(lambda: len(told.notes()) == 3, "three are kept")
    await told.bursts.take("speech", "n4", 1.0, "a person asked", incident=None)
    assert {each.began_s for each in told.notes()} == {1_000.0}
    told.now_s += KEPT_S
    await told.bursts.take("speech", "n4", 1.0, "a person asked", incident=None)
    assert [each.began_s for each in told.notes()] == [1_000.0 + KEPT_S]


async def test_those_that_end_at_once_are_kept_one_after_another(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a number of its own."""
    keeps, inside, most = bursts.keep, [0], [0]

    def watched(*given: Any) -> kept.Note:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.05)  # so long another may come
        inside[0] -= 1
        return keeps(*given)

    monkeypatch.setattr(bursts, "keep", watched)
    taking = [told.bursts.take("speech", node, 1.0, "asked", incident=None) for node in NODES]
    assert sorted(each.id for each in await asyncio.gather(*taking)) == [1, 2, 3, 4, 5]
    assert most == [1]


# ---------------------------------------------------------------- what goes wrong


async def test_a_node_takes_one_at_a_time(told: Told) -> None:
    told.nodes.going.clear()
    first = asyncio.create_task(told.bursts.take("speech", "n0", 1.0, "asked", incident=None))
    await eventually_async(lambda: told.nodes.asked, "it is asked")
    with pytest.raises(Busy):
        await told.bursts.take("speech", "n0", 1.0, "asked", incident=None)
    told.show()
    told.show(replace(HANG, node="n0", nodes=NODES[:2]))
    async with told.running():
        await eventually_async(lambda: told.nodes.asked == ["n0", "n1", "n2"], "others are")
        told.nodes.going.set()
        assert (await first).id > 0
        await eventually_async(lambda: len(told.notes()) == 3, "theirs are kept")
    assert (await told.bursts.take("speech", "n0", 1.0, "asked", incident=None)).id == 4


@pytest.mark.parametrize(
    "wrong",
    [
        TemporaryError("node n0: its daemon is not connected"),
        PermanentError("node n0: its daemon is of a version that takes no bursts"),
        RuntimeError("a defect"),
        b"no burst",
    ],
    ids=["away", "old", "defect", "noise"],
)
async def test_whatever_a_node_says_the_driver_goes_on(
    told: Told, wrong: bytes | Exception
) -> None:
    told.nodes.said["n0"] = wrong
    told.show()
    told.show(HANG)
    async with told.running():
        await eventually_async(lambda: len(told.notes()) == 3, "those of the others are kept")
        await eventually_async(lambda: not told.bursts._under_way, "all have ended")
        told.now_s += REST_S
        del told.nodes.said["n0"]
        told.show(replace(HANG, id=2))
        await eventually_async(lambda: len(told.notes()) == 7, "it is asked again")


async def test_a_burst_that_cannot_be_kept_is_refused_in_a_sentence(told: Told) -> None:
    kept.folder(told.root, "speech").parent.mkdir(parents=True)
    kept.folder(told.root, "speech").write_text("a file in its place")
    with pytest.raises(TemporaryError, match="the burst of n0 cannot be kept"):
        await told.bursts.take("speech", "n0", 1.0, "asked", incident=None)
    assert told.bursts._busy == set()


async def test_a_driver_that_leaves_waits_for_none(told: Told) -> None:
    told.nodes.going.clear()
    told.show()
    told.show(HANG)
    async with asyncio.timeout(DEADLINE_S), told.running():
        await eventually_async(lambda: len(told.nodes.asked) == 4, "four are asked")
    assert (told.bursts._busy, told.notes()) == (set(), [])
    assert bursts.BEYOND_S > 12, "the node gives up first"


# ---------------------------------------------------------------- a real connection

HELLO = Hello(protocol=PROTOCOL_VERSION, process="daemon", node="n0", incarnation="i1", bursts=True)


async def test_a_daemon_is_asked_and_its_answer_is_that_of_its_question(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        asked = asyncio.create_task(edge.sessions.burst("n0", 2.0, DEADLINE_S))
        ask = await edge.receive(client)
        assert (type(ask), ask.seconds) == (AskBurst, 2.0)
        await client.send(encode(BurstTaken(id="of another question", data=b"old")))
        await client.send(encode(BurstTaken(id=ask.id, data=b"new")))
        assert await asked == b"new"
        refused = asyncio.create_task(edge.sessions.burst("n0", 2.0, DEADLINE_S))
        ask = await edge.receive(client)
        await client.send(encode(BurstTaken(id=ask.id, why="another burst is being taken there")))
        with pytest.raises(TemporaryError, match="node n0: another burst is being taken there"):
            await refused


async def test_one_node_does_not_answer_for_another(edge: Any) -> None:
    async with (
        edge.greeted(HELLO) as client,
        edge.greeted(replace(HELLO, node="n1")) as other,
    ):
        asked = asyncio.create_task(edge.sessions.burst("n0", 2.0, DEADLINE_S))
        ask = await edge.receive(client)
        await other.send(encode(BurstTaken(id=ask.id, data=b"false")))
        again = asyncio.create_task(edge.sessions.burst("n1", 2.0, DEADLINE_S))
        theirs = await edge.receive(other)
        await other.send(encode(BurstTaken(id=theirs.id, data=b"theirs")))
        assert await again == b"theirs"
        assert not asked.done()
        await client.send(encode(BurstTaken(id=ask.id, data=b"true")))
        assert await asked == b"true"


async def test_a_daemon_that_is_old_away_or_silent_is_told_of(edge: Any) -> None:
    with pytest.raises(TemporaryError, match="not connected"):
        await edge.sessions.burst("n0", 1.0, DEADLINE_S)
    async with edge.greeted(replace(HELLO, bursts=False)):
        with pytest.raises(PermanentError, match="of a version that takes no bursts"):
            await edge.sessions.burst("n0", 1.0, DEADLINE_S)
    async with edge.greeted(HELLO) as client:
        with pytest.raises(TemporaryError, match=r"no burst within 0\.05 s"):
            await edge.sessions.burst("n0", 1.0, 0.05)
        late = await edge.receive(client)
        await client.send(encode(BurstTaken(id=late.id, data=b"late")))
        asked = asyncio.create_task(edge.sessions.burst("n0", 1.0, DEADLINE_S))
        await edge.receive(client)
    with pytest.raises(TemporaryError, match="connection ended meanwhile"):
        await asked
    assert edge.sessions.daemons._bursts == {}

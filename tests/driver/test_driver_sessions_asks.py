"""Questions to executors, and daemons: over real connections to a real server."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.client import ClientConnection

from holdfast.driver.core.events import (
    ProgressSeen,
)
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.protocol import messages
from holdfast.protocol.messages import (
    Acknowledged,
    AskLog,
    AskStacks,
    Desired,
    FromDaemon,
    Heartbeat,
    Hello,
    LogChunk,
    Message,
    Observed,
    Stacks,
    ToDaemon,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

HELLO = Hello(protocol=PROTOCOL_VERSION, process="executor", node="n0", incarnation="i1")
DAEMON_HELLO = msgspec.structs.replace(HELLO, process="daemon")
DESIRED = Desired(node="n0", generation=1, term=1, epoch=1, job="j")
QUIET = Observed(
    node="n0", incarnation="i1", sequence=1, generation=1, epoch=1, job="j", quiet=True
)
BEAT = Heartbeat(node="n0", incarnation="i1", sequence=5, uptime_s=1.0)


# ---------------------------------------------------------------- questions


async def answer(edge: Any, client: ClientConnection, make: Callable[[Any], Message]) -> None:
    await client.send(encode(make(await edge.receive(client))))


async def test_stacks_and_logs_are_asked_for_and_given(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        asked = asyncio.create_task(edge.sessions.stacks("n0", "j", (0, 1), limit_s=DEADLINE_S))
        await answer(edge, client, lambda ask: Stacks(id=ask.id, stacks={0: "main", 1: "wait"}))
        assert await asked == {0: "main", 1: "wait"}
        log = asyncio.create_task(
            edge.sessions.log("n0", "j", attempt=2, rank=1, stream="stderr", offset=-100)
        )
        ask = await edge.receive(client)
        assert isinstance(ask, AskLog)
        assert (ask.job, ask.attempt, ask.rank, ask.stream, ask.offset) == (
            "j",
            2,
            1,
            "stderr",
            -100,
        )
        await client.send(encode(LogChunk(id="of another question", data=b"x", end=1)))
        await client.send(encode(LogChunk(id=ask.id, data=b"Traceback", end=909)))
        assert await log == (b"Traceback", 909)


async def test_a_log_that_is_not_there_is_said(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        log = asyncio.create_task(
            edge.sessions.log("n0", "j", attempt=2, rank=1, stream="stdout", offset=0)
        )
        await answer(edge, client, lambda ask: LogChunk(id=ask.id, data=b"", end=0, missing=True))
        with pytest.raises(PermanentError, match="rank 1 has no stdout of attempt 2"):
            await log


async def test_a_node_that_does_not_answer_is_a_temporary_failure(edge: Any) -> None:
    with pytest.raises(TemporaryError, match="not connected"):
        await edge.sessions.stacks("n0", "j", (0,), limit_s=DEADLINE_S)
    async with edge.greeted(HELLO) as client:
        with pytest.raises(TemporaryError, match=r"no answer within 0\.05 s"):
            await edge.sessions.stacks("n0", "j", (0,), limit_s=0.05)
        late = await edge.receive(client)
        assert isinstance(late, AskStacks)
        await client.send(encode(Stacks(id=late.id, stacks={})))
        asked = asyncio.create_task(edge.sessions.stacks("n0", "j", (0,), limit_s=DEADLINE_S))
        await edge.receive(client)
    with pytest.raises(TemporaryError, match="connection was closed"):
        await asked


# ---------------------------------------------------------------- daemons


async def test_late_and_repeated_heartbeats_are_acknowledged_and_say_nothing(edge: Any) -> None:
    """An XID of a while ago would be found anew."""
    earlier = msgspec.structs.replace(BEAT, sequence=4)
    another = msgspec.structs.replace(BEAT, incarnation="i0", sequence=9)
    for last in (6, 7):  # a reconnect makes nothing young again
        async with edge.greeted(DAEMON_HELLO) as client:
            for beat in (
                BEAT,
                BEAT,
                earlier,
                another,
                msgspec.structs.replace(BEAT, sequence=last),
            ):
                await client.send(encode(beat))
                assert await edge.receive(client) == Acknowledged(sequence=beat.sequence)
            await eventually_async(lambda: ("heard", last) in edge.watch.calls)  # noqa: B023
    heard = [call for call in edge.watch.calls if call[0] == "heard"]
    assert heard == [("heard", 5), ("heard", 6), ("heard", 7)]
    restarted = msgspec.structs.replace(DAEMON_HELLO, incarnation="i2")
    async with edge.greeted(restarted) as client:
        await client.send(encode(msgspec.structs.replace(BEAT, incarnation="i2", sequence=1)))
        await eventually_async(lambda: ("heard", 1) in edge.watch.calls)


async def test_heartbeats_are_acknowledged_and_go_to_the_detectors(edge: Any) -> None:
    edge.watch.conclusions = [ProgressSeen(job="j", epoch=1, step=2)]
    async with edge.greeted(DAEMON_HELLO) as client:
        await client.send(encode(BEAT))
        assert await edge.receive(client) == Acknowledged(sequence=5)
        assert edge.events == edge.watch.conclusions
        await client.send(encode(msgspec.structs.replace(BEAT, node="n1")))
        assert (await edge.receive(client)).what == "Heartbeat.node"
    await eventually_async(lambda: len(edge.watch.calls) == 3)
    assert edge.watch.calls == [
        ("connected", "n0", "daemon"),
        ("heard", 5),
        ("disconnected", "n0", "daemon"),
    ]


async def test_a_daemon_is_told_what_to_watch_when_that_changes_and_when_it_comes(
    edge: Any,
) -> None:
    first = messages.WatchOrder(heartbeat_period_s=0.5, neighbours=(("n1", "10.0.0.2"),))
    second = messages.WatchOrder(heartbeat_period_s=1.0)
    edge.sessions.daemons.push({"n0": first})
    told = []
    async with edge.greeted(DAEMON_HELLO) as client:
        told.append(await edge.receive(client))
        edge.sessions.daemons.push({"n0": first})
        edge.sessions.daemons.push({"n0": second})
        told.append(await edge.receive(client))
    async with edge.greeted(DAEMON_HELLO) as client:
        told.append(await edge.receive(client))
    numbers = [each.number for each in told]
    assert numbers == sorted(set(numbers)), "so that a late one is known"
    (term,) = {each.term for each in told}
    sent = [msgspec.structs.replace(each, term=0, number=0) for each in told]
    assert (sent, term > 0) == ([first, second, second], True)


async def test_a_daemon_that_speaks_as_an_executor_is_refused(edge: Any) -> None:
    async with edge.greeted(DAEMON_HELLO) as client:
        await client.send(encode(QUIET))
        refused = await edge.receive(client)
    assert refused.what == "frame"
    assert "Observed" in refused.why


async def test_many_nodes_come_at_once(edge: Any) -> None:
    async def come(number: int) -> None:
        hello = msgspec.structs.replace(HELLO, node=f"n{number}")
        async with edge.greeted(hello) as client:
            own = msgspec.structs.replace(DESIRED, node=hello.node)
            edge.sessions.instruct(own)
            assert await edge.receive(client) == own

    await asyncio.gather(*(come(number) for number in range(50)))
    await edge.seen(100)


def test_the_two_directions_share_no_message_but_refused() -> None:
    def names(kinds: Any) -> Iterable[str]:
        return {each.__name__ for each in kinds.__args__}

    assert set(names(ToDaemon)) & set(names(FromDaemon)) == {"Refused"}

"""The nodes' WebSockets: real connections to a real server, with recorders behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.driver.adapters.sessions import Sessions
from holdfast.driver.adapters.tokens import Tokens
from holdfast.driver.core.events import (
    AnyEvent,
    DesiredRefused,
    ExecutorConnected,
    ExecutorDisconnected,
    NodeQuiet,
    ProgressSeen,
    RanksExited,
)
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.protocol import messages
from holdfast.protocol.messages import (
    MAX_FRAME_BYTES,
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
    RankStatus,
    Refused,
    Stacks,
    ToDaemon,
    ToExecutor,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

NODE_TOKEN = "node-token-of-the-test"
HELLO = Hello(protocol=PROTOCOL_VERSION, process="executor", node="n0", incarnation="i1")
DAEMON_HELLO = msgspec.structs.replace(HELLO, process="daemon")
DESIRED = Desired(node="n0", generation=1, term=1, epoch=1, job="j")
QUIET = Observed(
    node="n0", incarnation="i1", sequence=1, generation=1, epoch=1, job="j", quiet=True
)
BEAT = Heartbeat(node="n0", incarnation="d1", sequence=5, uptime_s=1.0)


class RecordingWatch:
    """Notes what the detectors would be told; concludes what the test puts into `conclusions`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.conclusions: list[AnyEvent] = []

    def connected(self, node: str, process: str, now: float) -> None:
        self.calls.append(("connected", node, process))

    def disconnected(self, node: str, process: str, now: float, why: str) -> None:
        self.calls.append(("disconnected", node, process))

    def heard(self, heartbeat: Heartbeat, now: float) -> list[AnyEvent]:
        self.calls.append(("heard", heartbeat.sequence))
        return self.conclusions

    def completed_step(self, job: str) -> int | None:
        return 41


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
    async def greeted(self, hello: Hello = HELLO) -> AsyncIterator[ClientConnection]:
        """A connection after its handshake."""
        async with self.connect(hello.process, node=hello.node) as client:
            await client.send(encode(hello))
            assert isinstance(await receive(client), Welcome)
            yield client

    async def seen(self, count: int) -> list[AnyEvent]:
        """The first `count` events, once there are so many."""
        await eventually(lambda: len(self.events) >= count)
        return self.events


async def eventually(fact: Callable[[], object], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not fact():
            await asyncio.sleep(0.005)


async def receive(client: ClientConnection, within_s: float = 5.0) -> Any:
    frame = await asyncio.wait_for(client.recv(decode=False), within_s)
    kinds = ToDaemon if client.request.path.endswith("daemon") else ToExecutor  # type: ignore[union-attr]
    return Decoder[Any](kinds).decode(frame)


@pytest.fixture
async def edge(
    serve: Callable[[FastAPI], AbstractAsyncContextManager[str]],
) -> AsyncIterator[Edge]:
    watch, app = RecordingWatch(), FastAPI()
    events: list[AnyEvent] = []
    sessions = Sessions(
        tokens=Tokens(user="a token of a person", node=NODE_TOKEN),
        watch=watch,  # type: ignore[arg-type]
        emit=events.append,
        term=lambda: 3,
        now=lambda: 0.0,
        heartbeat_period_s=0.25,
    )
    sessions.mount(app)
    async with serve(app) as address:
        made = Edge(address, sessions, watch)
        made.events = events
        yield made


# ---------------------------------------------------------------- saying hello


async def test_an_executor_is_welcomed_and_the_core_hears_of_it(edge: Edge) -> None:
    hello = msgspec.structs.replace(HELLO, address="10.0.0.7", generation=4, epoch=2)
    async with edge.connect() as client:
        await client.send(encode(hello))
        assert await receive(client) == Welcome(term=3, heartbeat_period_s=0.25)
        assert edge.sessions.hello("n0") == hello
    connected = ExecutorConnected(
        node="n0", incarnation="i1", address="10.0.0.7", generation=4, epoch=2
    )
    left = ExecutorDisconnected(node="n0", incarnation="i1")
    assert await edge.seen(2) == [connected, left]
    assert edge.sessions.hello("n0") is None
    assert edge.watch.calls == [("connected", "n0", "executor"), ("disconnected", "n0", "executor")]


@pytest.mark.parametrize("token", ["", "wrong", "a token of a person"])
@pytest.mark.parametrize("process", ["executor", "daemon"])
async def test_without_the_nodes_token_there_is_no_connection(
    edge: Edge, token: str, process: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with edge.connect(process, token=token):
            pass
    assert refused.value.response.status_code == 401
    assert b"Send `Bearer TOKEN`" in refused.value.response.body
    assert edge.events == []


BAD_FIRST_FRAMES = {
    "not msgpack": (b"\xc1nonsense", "frame"),
    "text": ("hello", "frame"),
    "unknown kind": (msgspec.msgpack.encode({"type": "Goodbye"}), "frame"),
    "missing field": (msgspec.msgpack.encode({"type": "Hello", "protocol": 1}), "frame"),
    "wrong type": (msgspec.msgpack.encode({**msgspec.to_builtins(HELLO), "epoch": "x"}), "frame"),
    "too large": (b"\0" * (MAX_FRAME_BYTES + 1), "frame"),
    "not hello": (encode(QUIET), "Hello"),
    "other protocol": (encode(msgspec.structs.replace(HELLO, protocol=99)), "protocol"),
    "other node": (encode(msgspec.structs.replace(HELLO, node="n9")), "Hello"),
    "other process": (encode(DAEMON_HELLO), "Hello"),
}


@pytest.mark.parametrize(("frame", "what"), BAD_FIRST_FRAMES.values(), ids=BAD_FIRST_FRAMES)
async def test_a_bad_first_frame_is_refused_in_a_sentence_and_changes_nothing(
    edge: Edge, frame: bytes | str, what: str
) -> None:
    async with edge.connect() as client:
        await client.send(frame)
        refused = await receive(client)
        assert isinstance(refused, Refused)
        assert refused.what == what
        assert refused.why
        assert refused.fix
        with pytest.raises(ConnectionClosed):
            await receive(client)
    assert edge.events == []
    assert edge.watch.calls == []


async def test_a_version_that_is_not_ours_is_named_with_ours(edge: Edge) -> None:
    async with edge.connect() as client:
        await client.send(encode(msgspec.structs.replace(HELLO, protocol=99)))
        refused = await receive(client)
    assert f"version 99, this driver speaks {PROTOCOL_VERSION}" in refused.why
    assert "same version" in refused.fix


async def test_a_frame_far_beyond_the_limit_ends_the_connection(edge: Edge) -> None:
    async with edge.greeted() as client:
        await client.send(b"\0" * (3 * MAX_FRAME_BYTES))
        with pytest.raises(ConnectionClosed) as closed:
            await receive(client)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009, "message too big"
    assert [type(each) for each in await edge.seen(2)] == [ExecutorConnected, ExecutorDisconnected]


async def test_who_says_nothing_is_not_waited_for_for_ever(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.adapters.sessions_link.HELLO_WITHIN_S", 0.05)
    async with edge.connect() as client:
        refused = await receive(client)
    assert refused.why == "nothing came within 0.05 s"


async def test_a_bad_later_frame_ends_the_connection_but_keeps_what_is_known(edge: Edge) -> None:
    edge.sessions.instruct(DESIRED)
    async with edge.greeted() as client:
        assert await receive(client) == DESIRED
        await client.send(encode(QUIET))
        await client.send(b"\xc1")
        assert isinstance(await receive(client), Refused)
    events = await edge.seen(3)
    assert [type(each) for each in events] == [ExecutorConnected, NodeQuiet, ExecutorDisconnected]
    assert edge.sessions.observed("n0") == QUIET


# ---------------------------------------------------------------- being told


async def test_a_node_is_told_now_and_at_each_reconnect(edge: Edge) -> None:
    edge.sessions.instruct(DESIRED)
    async with edge.greeted() as client:
        assert await receive(client) == DESIRED
        newer = msgspec.structs.replace(DESIRED, generation=2)
        edge.sessions.instruct(newer)
        assert await receive(client) == newer
    async with edge.greeted() as client:
        assert await receive(client) == newer


async def test_what_an_executor_refuses_reaches_the_core(edge: Edge) -> None:
    async with edge.greeted() as client:
        refused = Refused(what="epoch", why="3 is older than 4", fix="Ask again.", generation=9)
        await client.send(encode(refused))
        await edge.seen(2)
    why = "epoch: 3 is older than 4. Ask again."
    assert edge.events[1] == DesiredRefused(node="n0", generation=9, why=why)


# ---------------------------------------------------------------- reporting


def exited(sequence: int) -> Observed:
    ended = RankStatus(rank=0, state="exited", signal=9, order=1)
    return msgspec.structs.replace(QUIET, sequence=sequence, quiet=False, ranks=(ended,))


async def test_repeated_and_late_reports_are_harmless(edge: Edge) -> None:
    async with edge.greeted() as client:
        for seen in (exited(7), exited(7), exited(3), exited(8)):
            await client.send(encode(seen))
        await eventually(lambda: (seen := edge.sessions.observed("n0")) and seen.sequence == 8)
    exits = [each for each in edge.events if isinstance(each, RanksExited)]
    assert [(each.exits[0].rank, each.step) for each in exits] == [(0, 41)]


async def test_quiet_is_said_again_after_a_reconnect(edge: Edge) -> None:
    edge.sessions.instruct(DESIRED)
    for _ in range(2):
        async with edge.greeted() as client:
            await client.send(encode(QUIET))
            await eventually(lambda: isinstance(edge.events[-1], NodeQuiet))
        await eventually(lambda: isinstance(edge.events[-1], ExecutorDisconnected))
    assert sum(isinstance(each, NodeQuiet) for each in edge.events) == 2


async def test_a_report_from_before_the_reconnect_is_late(edge: Edge) -> None:
    async with edge.greeted() as client:
        await client.send(encode(exited(7)))
        await edge.seen(2)
    async with edge.greeted() as client:
        await client.send(encode(exited(6)))
        await client.send(encode(exited(7)))
        await eventually(lambda: sum(isinstance(e, RanksExited) for e in edge.events) == 2)
    async with edge.greeted(msgspec.structs.replace(HELLO, incarnation="i2")) as client:
        new = msgspec.structs.replace(exited(1), incarnation="i2")
        await client.send(encode(new))
        await eventually(lambda: edge.sessions.observed("n0") == new)


async def test_a_newer_connection_takes_the_place_of_the_older(edge: Edge) -> None:
    newer_hello = msgspec.structs.replace(HELLO, incarnation="i2")
    async with edge.greeted() as older, edge.greeted(newer_hello) as newer:
        refused = await receive(older)
        assert "took its place" in refused.why
        with pytest.raises(ConnectionClosed):
            await receive(older)
        edge.sessions.instruct(DESIRED)
        assert await receive(newer) == DESIRED
        assert [(type(each), each.incarnation) for each in edge.events] == [  # type: ignore[union-attr]
            (ExecutorConnected, "i1"),
            (ExecutorDisconnected, "i1"),
            (ExecutorConnected, "i2"),
        ]


async def test_who_speaks_for_another_node_is_refused(edge: Edge) -> None:
    async with edge.greeted() as client:
        await client.send(encode(msgspec.structs.replace(QUIET, node="n1")))
        refused = await receive(client)
    assert refused.what == "Observed.node"


# ---------------------------------------------------------------- questions


async def answer(client: ClientConnection, make: Callable[[Any], Message]) -> None:
    await client.send(encode(make(await receive(client))))


async def test_stacks_and_logs_are_asked_for_and_given(edge: Edge) -> None:
    async with edge.greeted() as client:
        asked = asyncio.create_task(edge.sessions.stacks("n0", "j", (0, 1), limit_s=5))
        await answer(client, lambda ask: Stacks(id=ask.id, stacks={0: "main", 1: "wait"}))
        assert await asked == {0: "main", 1: "wait"}
        log = asyncio.create_task(
            edge.sessions.log("n0", "j", attempt=2, rank=1, stream="stderr", offset=-100)
        )
        ask = await receive(client)
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


async def test_a_log_that_is_not_there_is_said(edge: Edge) -> None:
    async with edge.greeted() as client:
        log = asyncio.create_task(
            edge.sessions.log("n0", "j", attempt=2, rank=1, stream="stdout", offset=0)
        )
        await answer(client, lambda ask: LogChunk(id=ask.id, data=b"", end=0, missing=True))
        with pytest.raises(PermanentError, match="rank 1 has no stdout of attempt 2"):
            await log


async def test_a_node_that_does_not_answer_is_a_temporary_failure(edge: Edge) -> None:
    with pytest.raises(TemporaryError, match="not connected"):
        await edge.sessions.stacks("n0", "j", (0,), limit_s=5)
    async with edge.greeted() as client:
        with pytest.raises(TemporaryError, match=r"no answer within 0\.05 s"):
            await edge.sessions.stacks("n0", "j", (0,), limit_s=0.05)
        late = await receive(client)
        assert isinstance(late, AskStacks)
        await client.send(encode(Stacks(id=late.id, stacks={})))
        asked = asyncio.create_task(edge.sessions.stacks("n0", "j", (0,), limit_s=5))
        await receive(client)
    with pytest.raises(TemporaryError, match="connection ended"):
        await asked


# ---------------------------------------------------------------- daemons


async def test_heartbeats_are_acknowledged_and_go_to_the_detectors(edge: Edge) -> None:
    edge.watch.conclusions = [ProgressSeen(job="j", epoch=1, step=2)]
    async with edge.greeted(DAEMON_HELLO) as client:
        await client.send(encode(BEAT))
        assert await receive(client) == Acknowledged(sequence=5)
        assert edge.events == edge.watch.conclusions
        await client.send(encode(msgspec.structs.replace(BEAT, node="n1")))
        assert (await receive(client)).what == "Heartbeat.node"
    await eventually(lambda: len(edge.watch.calls) == 3)
    assert edge.watch.calls == [
        ("connected", "n0", "daemon"),
        ("heard", 5),
        ("disconnected", "n0", "daemon"),
    ]


async def test_a_daemon_is_told_what_to_watch_when_that_changes_and_when_it_comes(
    edge: Edge,
) -> None:
    first = messages.Watch(heartbeat_period_s=0.5, neighbours=(("n1", "10.0.0.2"),))
    second = messages.Watch(heartbeat_period_s=1.0)
    edge.sessions.daemons.push({"n0": first})
    async with edge.greeted(DAEMON_HELLO) as client:
        assert await receive(client) == first
        edge.sessions.daemons.push({"n0": first})
        edge.sessions.daemons.push({"n0": second})
        assert await receive(client) == second
    async with edge.greeted(DAEMON_HELLO) as client:
        assert await receive(client) == second


async def test_a_daemon_that_speaks_as_an_executor_is_refused(edge: Edge) -> None:
    async with edge.greeted(DAEMON_HELLO) as client:
        await client.send(encode(QUIET))
        refused = await receive(client)
    assert refused.what == "frame"
    assert "Observed" in refused.why


async def test_many_nodes_come_at_once(edge: Edge) -> None:
    async def come(number: int) -> None:
        hello = msgspec.structs.replace(HELLO, node=f"n{number}")
        async with edge.greeted(hello) as client:
            own = msgspec.structs.replace(DESIRED, node=hello.node)
            edge.sessions.instruct(own)
            assert await receive(client) == own

    await asyncio.gather(*(come(number) for number in range(50)))
    await edge.seen(100)


def test_the_two_directions_share_no_message_but_refused() -> None:
    def names(kinds: Any) -> Iterable[str]:
        return {each.__name__ for each in kinds.__args__}

    assert set(names(ToDaemon)) & set(names(FromDaemon)) == {"Refused"}

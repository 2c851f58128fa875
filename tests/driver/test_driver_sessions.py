"""The nodes' WebSockets: real connections to a real server, with recorders behind it."""

from typing import Any

import msgspec
import pytest
from waiting import eventually_async
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.driver.core.events import (
    DesiredRefused,
    ExecutorConnected,
    ExecutorDisconnected,
    NodeQuiet,
    RanksExited,
)
from holdfast.protocol.messages import (
    MAX_FRAME_BYTES,
    Desired,
    Hello,
    Observed,
    RankStatus,
    Refused,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import encode

HELLO = Hello(protocol=PROTOCOL_VERSION, process="executor", node="n0", incarnation="i1")
DAEMON_HELLO = msgspec.structs.replace(HELLO, process="daemon")
DESIRED = Desired(node="n0", generation=1, term=1, epoch=1, job="j")
QUIET = Observed(
    node="n0", incarnation="i1", sequence=1, generation=1, epoch=1, job="j", quiet=True
)


# ---------------------------------------------------------------- saying hello


async def test_an_executor_is_welcomed_and_the_core_hears_of_it(edge: Any) -> None:
    hello = msgspec.structs.replace(HELLO, address="10.0.0.7", generation=4, epoch=2, term=3)
    async with edge.connect() as client:
        await client.send(encode(hello))
        assert await edge.receive(client) == Welcome(term=3, heartbeat_period_s=0.25)
        assert edge.sessions.hello("n0") == hello
    connected = ExecutorConnected(
        node="n0", incarnation="i1", address="10.0.0.7", generation=4, epoch=2, term=3
    )
    left = ExecutorDisconnected(node="n0", incarnation="i1")
    assert await edge.seen(2) == [connected, left]
    assert edge.sessions.hello("n0") is None
    assert edge.watch.calls == [("connected", "n0", "executor"), ("disconnected", "n0", "executor")]


@pytest.mark.parametrize("token", ["", "wrong", "a token of a person"])
@pytest.mark.parametrize("process", ["executor", "daemon"])
async def test_without_the_nodes_token_there_is_no_connection(
    edge: Any, token: str, process: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with edge.connect(process, token=token):
            pass
    assert caplog.records == [], "that a node is refused is no mistake of ours"
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
    edge: Any, frame: bytes | str, what: str
) -> None:
    async with edge.connect() as client:
        await client.send(frame)
        refused = await edge.receive(client)
        assert isinstance(refused, Refused)
        assert refused.what == what
        assert refused.why
        assert refused.fix
        with pytest.raises(ConnectionClosed):
            await edge.receive(client)
    assert edge.events == []
    assert edge.watch.calls == []


async def test_a_version_that_is_not_ours_is_named_with_ours(edge: Any) -> None:
    async with edge.connect() as client:
        await client.send(encode(msgspec.structs.replace(HELLO, protocol=99)))
        refused = await edge.receive(client)
    assert f"version 99, this driver speaks {PROTOCOL_VERSION}" in refused.why
    assert "same version" in refused.fix


async def test_a_frame_far_beyond_the_limit_ends_the_connection(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        await client.send(b"\0" * (3 * MAX_FRAME_BYTES))
        with pytest.raises(ConnectionClosed) as closed:
            await edge.receive(client)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009, "message too big"
    assert [type(each) for each in await edge.seen(2)] == [ExecutorConnected, ExecutorDisconnected]


async def test_who_says_nothing_is_not_waited_for_for_ever(
    edge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.adapters.websocket.link.HELLO_WITHIN_S", 0.05)
    async with edge.connect() as client:
        refused = await edge.receive(client)
    assert refused.why == "nothing came within 0.05 s"


async def test_a_bad_later_frame_ends_the_connection_but_keeps_what_is_known(edge: Any) -> None:
    edge.sessions.instruct(DESIRED)
    async with edge.greeted(HELLO) as client:
        assert await edge.receive(client) == DESIRED
        await client.send(encode(QUIET))
        await client.send(b"\xc1")
        assert isinstance(await edge.receive(client), Refused)
    events = await edge.seen(3)
    assert [type(each) for each in events] == [ExecutorConnected, NodeQuiet, ExecutorDisconnected]
    assert edge.sessions.observed("n0") == QUIET


# ---------------------------------------------------------------- being told


async def test_a_node_is_told_now_and_at_each_reconnect(edge: Any) -> None:
    edge.sessions.instruct(DESIRED)
    async with edge.greeted(HELLO) as client:
        assert await edge.receive(client) == DESIRED
        newer = msgspec.structs.replace(DESIRED, generation=2)
        edge.sessions.instruct(newer)
        assert await edge.receive(client) == newer
    async with edge.greeted(HELLO) as client:
        assert await edge.receive(client) == newer


async def test_who_has_followed_a_later_epoch_is_not_told_the_older_one(edge: Any) -> None:
    """The journal was put back: ranks of an epoch that is over would be started once more."""
    edge.sessions.instruct(DESIRED)
    async with edge.greeted(msgspec.structs.replace(HELLO, epoch=9)) as client:
        later = msgspec.structs.replace(DESIRED, epoch=10)
        edge.sessions.instruct(later)
        assert await edge.receive(client) == later


async def test_who_has_followed_another_of_our_term_is_told_nothing_and_that_is_known(
    edge: Any,
) -> None:
    """The journal was put back: this term was given before, and two drivers would be as one."""
    ours = msgspec.structs.replace(DESIRED, term=3)
    async with edge.greeted(msgspec.structs.replace(HELLO, term=3)) as client:
        edge.sessions.instruct(ours)
        await client.send(b"\xc1")
        assert isinstance(await edge.receive(client), Refused), "what is said next"
    assert edge.events[0].term == 3


async def test_who_has_followed_this_very_driver_is_told_on_though_it_comes_anew(edge: Any) -> None:
    ours = msgspec.structs.replace(DESIRED, term=3)
    edge.sessions.instruct(ours)
    async with edge.greeted(HELLO) as client:
        assert await edge.receive(client) == ours
    edge.events.clear()
    async with edge.greeted(msgspec.structs.replace(HELLO, term=3, generation=1)) as client:
        assert await edge.receive(client) == ours
        (connected,) = (each for each in edge.events if isinstance(each, ExecutorConnected))
        assert connected.term == 0, "it is no other's"


async def test_what_an_executor_refuses_reaches_the_core(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        refused = Refused(what="epoch", why="3 is older than 4", fix="Ask again.", generation=9)
        await client.send(encode(refused))
        await edge.seen(2)
    why = "epoch: 3 is older than 4. Ask again."
    assert edge.events[1] == DesiredRefused(node="n0", generation=9, why=why)


# ---------------------------------------------------------------- reporting


def exited(sequence: int, rank: int = 0) -> Observed:
    ended = RankStatus(rank=rank, state="exited", signal=9, order=1)
    return msgspec.structs.replace(QUIET, sequence=sequence, quiet=False, ranks=(ended,))


async def test_repeated_and_late_reports_are_harmless(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        for seen in (exited(7), exited(7), exited(3), exited(8)):
            await client.send(encode(seen))
        await eventually_async(lambda: edge.sessions.observed("n0") == exited(8))
    exits = [each for each in edge.events if isinstance(each, RanksExited)]
    assert [(each.exits[0].rank, each.step) for each in exits] == [(0, 41)]


async def test_quiet_is_said_again_after_a_reconnect(edge: Any) -> None:
    edge.sessions.instruct(DESIRED)
    for _ in range(2):
        async with edge.greeted(HELLO) as client:
            await client.send(encode(QUIET))
            await eventually_async(lambda: isinstance(edge.events[-1], NodeQuiet))
        await eventually_async(lambda: isinstance(edge.events[-1], ExecutorDisconnected))
    assert sum(isinstance(each, NodeQuiet) for each in edge.events) == 2


async def test_a_report_from_before_the_reconnect_is_late(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        await client.send(encode(exited(7)))
        await edge.seen(2)
    async with edge.greeted(HELLO) as client:
        await client.send(encode(exited(6)))
        await client.send(encode(exited(7)))
        await eventually_async(lambda: sum(isinstance(e, RanksExited) for e in edge.events) == 2)
    async with edge.greeted(msgspec.structs.replace(HELLO, incarnation="i2")) as client:
        new = msgspec.structs.replace(exited(1), incarnation="i2")
        await client.send(encode(new))
        await eventually_async(lambda: edge.sessions.observed("n0") == new)
        newer = msgspec.structs.replace(new, sequence=2)
        for seen in (exited(8, rank=1), newer):
            await client.send(encode(seen))
        await eventually_async(lambda: edge.sessions.observed("n0") == newer)
    assert sum(isinstance(e, RanksExited) for e in edge.events) == 3


async def test_a_newer_connection_takes_the_place_of_the_older(edge: Any) -> None:
    newer_hello = msgspec.structs.replace(HELLO, incarnation="i2")
    async with edge.greeted(HELLO) as older, edge.greeted(newer_hello) as newer:
        refused = await edge.receive(older)
        assert "took its place" in refused.why
        with pytest.raises(ConnectionClosed):
            await edge.receive(older)
        edge.sessions.instruct(DESIRED)
        assert await edge.receive(newer) == DESIRED
        assert [(type(each), each.incarnation) for each in edge.events] == [  # type: ignore[union-attr]
            (ExecutorConnected, "i1"),
            (ExecutorDisconnected, "i1"),
            (ExecutorConnected, "i2"),
        ]


async def test_who_gave_up_before_its_greeting_takes_nothing_from_the_next(edge: Any) -> None:
    """As executors do whose driver is slow to answer: the next try has begun when that one ends."""
    async with edge.connect("executor") as client:
        async with edge.connect("executor"):
            pass
        # a round trip: the driver has seen the end of the one that was here before
        async with edge.connect("executor") as last:
            await last.send(b"no greeting")
            await edge.receive(last)
        await client.send(encode(HELLO))
        assert isinstance(await edge.receive(client), Welcome)
        edge.sessions.instruct(DESIRED)
        assert await edge.receive(client) == DESIRED


@pytest.mark.parametrize(
    ("epoch", "why"),
    [
        (-1, "-1 is negative"),
        (4, "4 is newer than 3, the newest that this node was given"),
    ],
    ids=["negative", "newer"],
)
async def test_an_epoch_that_nobody_gave_is_refused_and_changes_nothing(
    edge: Any, epoch: int, why: str
) -> None:
    edge.sessions.instruct(msgspec.structs.replace(DESIRED, epoch=3))
    async with edge.greeted(HELLO) as client:
        await edge.receive(client)
        await client.send(encode(msgspec.structs.replace(exited(1), epoch=epoch)))
        refused = await edge.receive(client)
    assert (refused.what, refused.why) == ("Observed.epoch", why)
    assert refused.fix
    assert [type(each) for each in await edge.seen(2)] == [ExecutorConnected, ExecutorDisconnected]
    assert edge.sessions.observed("n0") is None


@pytest.mark.parametrize("epoch", [2, 5], ids=["older", "followed before this driver"])
async def test_an_epoch_that_the_node_did_follow_is_heard(edge: Any, epoch: int) -> None:
    edge.sessions.instruct(msgspec.structs.replace(DESIRED, epoch=3))
    async with edge.greeted(msgspec.structs.replace(HELLO, epoch=5)) as client:
        await client.send(encode(msgspec.structs.replace(exited(1), epoch=epoch)))
        await eventually_async(lambda: any(isinstance(e, RanksExited) for e in edge.events))


async def test_who_speaks_for_another_node_is_refused(edge: Any) -> None:
    async with edge.greeted(HELLO) as client:
        await client.send(encode(msgspec.structs.replace(QUIET, node="n1")))
        refused = await edge.receive(client)
    assert refused.what == "Observed.node"

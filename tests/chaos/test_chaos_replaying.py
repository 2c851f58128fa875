"""The relay between nodes and driver: passes on what is said, or repeats it, and counts that."""

import argparse
import asyncio
import os
import random
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
from waiting import eventually_async
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.asyncio.server import Request, Response, ServerConnection, unix_serve
from websockets.exceptions import InvalidStatus

from holdfast.lab import replaying
from holdfast.lab.replaying import MOST_KEPT, Count, Mood, Way, counted, socket_of, turn
from holdfast.protocol.messages import Acknowledged, Desired
from holdfast.protocol.wire import encode

ALWAYS = Mood(again=True, late_share=1.0)


def desired(epoch: int) -> bytes:
    return encode(Desired(node="n", generation=epoch, term=1, epoch=epoch))


# ---------------------------------------------------------------- what is repeated


def test_as_it_stands_each_message_comes_once() -> None:
    count = Count()
    way = Way(count, random.Random(0))
    frames = [desired(epoch) for epoch in (1, 2, 3)]
    assert [way.instead_of(frame, Mood()) for frame in frames] == [[frame] for frame in frames]
    assert count == Count()


def test_a_message_comes_again_and_one_of_before_late() -> None:
    count = Count()
    way = Way(count, random.Random(0))
    first, second = desired(1), desired(2)
    assert way.instead_of(first, ALWAYS) == [first, first], "there was none before"
    assert way.instead_of(second, ALWAYS) == [second, second, first]
    assert count == Count(again=2, late=1, outdated=1)


def test_what_is_of_no_epoch_is_of_no_older_one() -> None:
    count = Count()
    way = Way(count, random.Random(0))
    for sequence in (1, 2, 3):
        way.instead_of(encode(Acknowledged(sequence=sequence)), ALWAYS)
    way.instead_of(desired(1), ALWAYS)
    assert (count.late, count.outdated) == (3, 0)


def test_it_keeps_so_many_messages_and_no_more() -> None:
    way = Way(Count(), random.Random(0))
    way.instead_of(desired(1), Mood())
    for _ in range(MOST_KEPT):
        way.instead_of(desired(2), Mood())
    late = {way.instead_of(desired(3), ALWAYS)[-1] for _ in range(10 * MOST_KEPT)}
    assert late == {desired(2), desired(3)}


# ---------------------------------------------------------------- the process


class Driver:
    """Greets as a driver, answers each message with itself, and keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[str | bytes] = []
        self.asked: list[tuple[str, str | None]] = []
        self.refuses = False

    async def serve(self, connection: ServerConnection) -> None:
        await connection.send(b"welcome")
        async for frame in connection:
            self.heard.append(frame)
            await connection.send(frame)

    def admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.asked.append((request.path, request.headers.get("Authorization")))
        refused = HTTPStatus.UNAUTHORIZED
        return connection.respond(refused, "not a node") if self.refuses else None


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[Driver]:
    """Behind a relay."""
    made, ours = Driver(), tmp_path / "driver.sock"
    life, death = os.pipe()
    given = argparse.Namespace(state=tmp_path, to=ours, die_with_fd=life)
    async with unix_serve(made.serve, str(ours), process_request=made.admit):
        relay = asyncio.create_task(replaying.serve(given))
        await eventually_async(socket_of(tmp_path).exists, "the relay listens")
        yield made
        os.close(death)
        await relay
        os.close(life)


def node(folder: Path) -> unix_connect:
    return unix_connect(
        str(socket_of(folder)),
        "ws://driver/v1alpha1/nodes/n/executor",
        additional_headers={"Authorization": "Bearer secret"},
        compression=None,
    )


async def said(connection: ClientConnection, count: int) -> list[str | bytes]:
    return [await connection.recv() for _ in range(count)]


async def test_it_passes_on_what_both_sides_say_and_who_asks(
    driver: Driver, tmp_path: Path
) -> None:
    async with node(tmp_path) as connection:
        frames = [b"hello", desired(1), b"no message of ours", "nor this"]
        for frame in frames:
            await connection.send(frame)
        assert await said(connection, 5) == [b"welcome", *frames]
        await (await connection.ping())
    assert driver.asked == [("/v1alpha1/nodes/n/executor", "Bearer secret")]
    assert counted(tmp_path) == replaying.Counts()


async def test_it_repeats_what_was_said_in_earlier_connections_and_no_greeting(
    driver: Driver, tmp_path: Path
) -> None:
    async with node(tmp_path) as connection:
        for frame in (b"hello", desired(1)):
            await connection.send(frame)
        await said(connection, 3)
    turn(tmp_path, ALWAYS)
    driver.heard.clear()
    async with node(tmp_path) as connection:
        for frame in (b"hello", desired(2)):
            await connection.send(frame)
        await eventually_async(lambda: len(driver.heard) == 4, "what was repeated")
    assert driver.heard == [b"hello", desired(2), desired(2), desired(1)]
    assert counted(tmp_path).to_driver == Count(again=1, late=1, outdated=1)


async def test_whom_the_driver_refuses_is_told_so(driver: Driver, tmp_path: Path) -> None:
    driver.refuses = True
    with pytest.raises(InvalidStatus, match="401"):
        async with node(tmp_path):
            pass

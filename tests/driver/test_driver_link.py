"""What is sent to a node goes out, in order, whenever it is said."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest
from starlette.websockets import WebSocket
from waiting import eventually_async

from holdfast.driver.adapters.websocket.link import Link
from holdfast.protocol.messages import FromExecutor, Refused
from holdfast.protocol.wire import Decoder, encode

ORDERS = [Refused(what=f"order {number}", why="", fix="") for number in range(2)]


class Peer:
    """A socket whose writes take some rounds of the event loop, and whose peer says nothing."""

    def __init__(self, rounds: int) -> None:
        self.sent: list[bytes] = []
        self._rounds = rounds

    async def send_bytes(self, frame: bytes) -> None:
        for _ in range(self._rounds):
            await asyncio.sleep(0)
        self.sent.append(frame)

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def close(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("after", range(6), ids="{} rounds of the loop".format)
@pytest.mark.parametrize("rounds", range(3), ids="writes of {} rounds".format)
async def test_what_is_said_while_a_write_ends_goes_out_too(rounds: int, after: int) -> None:
    peer = Peer(rounds)
    decoder: Decoder[Any] = Decoder(FromExecutor)
    link = Link(cast(WebSocket, peer), decoder, node="node-0", process="executor")
    talking = asyncio.create_task(link._talk(lambda _: None))
    await asyncio.sleep(0)
    for order in ORDERS:
        link.send(order)
        for _ in range(after):
            await asyncio.sleep(0)
    await eventually_async(lambda: len(peer.sent) == len(ORDERS))
    assert peer.sent == [encode(order) for order in ORDERS]
    talking.cancel()
    with suppress(asyncio.CancelledError):
        await talking

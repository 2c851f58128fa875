"""What stands between the nodes and the driver: passes messages on, or repeats them for a while.

A process of its own, started by a laboratory; whoever does a fault writes what is repeated
(`turn`), and reads how much was (`counted`). Nodes speak to a driver by WebSockets alone. Must not
change what it passes on, nor repeat a greeting: the first message each way is its connection's own.
"""

import argparse
import asyncio
import random
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from aiohttp import WSMsgType, web

from holdfast.kit.files import write_atomic
from holdfast.kit.owned import when_owner_is_gone
from holdfast.kit.together import until_first
from holdfast.protocol.messages import MAX_FRAME_BYTES

HOP = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})
"""Headers of one hop, as are those that begin with Sec-WebSocket-, and of a body made anew."""
MOST_KEPT = 200
"""Messages of one process of a node in one direction: those of minutes."""

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class Mood(msgspec.Struct, frozen=True):
    """What comes besides each message: the same `again`, and a share of `late` ones of before."""

    again: bool = False
    late_share: float = 0.0


class Count(msgspec.Struct):
    """Messages of one direction that came once more: at once, late, and late of an older epoch."""

    again: int = 0
    late: int = 0
    outdated: int = 0


class Counts(msgspec.Struct):
    """Both directions."""

    to_driver: Count = msgspec.field(default_factory=Count)
    to_nodes: Count = msgspec.field(default_factory=Count)


def turn(folder: Path, mood: Mood) -> None:
    """Have the relay of this folder repeat so much from now on."""
    write_atomic(_mood_of(folder), msgspec.json.encode(mood))


def counted(folder: Path) -> Counts:
    """What the relay of this folder has repeated by now."""
    try:
        return msgspec.json.decode(_counts_of(folder).read_bytes(), type=Counts)
    except FileNotFoundError:
        return Counts()


def socket_of(folder: Path) -> Path:
    """Where it listens."""
    return folder / "relay.sock"


class Kept(NamedTuple):
    """A message that was passed on, and the epoch that it is of; 0 where it is of none."""

    frame: bytes
    epoch: int


class Way:
    """The messages of one process of a node in one direction, over all its connections."""

    def __init__(self, count: Count, drawn: random.Random) -> None:
        self._count = count
        self._random = drawn
        self._kept: deque[Kept] = deque(maxlen=MOST_KEPT)

    def instead_of(self, frame: bytes, mood: Mood) -> list[bytes]:
        """What is passed on in the place of this message, in this order."""
        message = Kept(frame, _epoch_of(frame))
        passed = [frame]
        if mood.again:
            self._count.again += 1
            passed.append(frame)
        if self._kept and self._random.random() < mood.late_share:
            late = self._random.choice(self._kept)
            self._count.late += 1
            self._count.outdated += 0 < late.epoch < message.epoch
            passed.append(late.frame)
        self._kept.append(message)
        return passed


class Relay:
    """One, from `serve` to its cancellation."""

    def __init__(self, folder: Path, driver: aiohttp.ClientSession) -> None:
        self._folder = folder
        self._driver = driver
        self._counts = Counts()
        self._random = random.Random(0)
        self._ways: dict[tuple[str, bool], Way] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One connection of a node, for as long as both sides have it."""
        headers = _passed_on(request.headers)
        url = f"http://driver{request.raw_path}"
        try:
            async with self._driver.ws_connect(
                url, headers=headers, autoping=False, autoclose=False, max_msg_size=MAX_FRAME_BYTES
            ) as driver:
                return await self._join(request, driver)
        except aiohttp.WSServerHandshakeError as refused:
            return web.Response(status=refused.status, headers=_passed_on(refused.headers or {}))
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=502, text=str(error))

    async def _join(
        self, request: web.Request, driver: aiohttp.ClientWebSocketResponse
    ) -> web.WebSocketResponse:
        node = web.WebSocketResponse(
            autoping=False, autoclose=False, compress=False, max_msg_size=MAX_FRAME_BYTES
        )
        await node.prepare(request)
        with suppress(aiohttp.ClientConnectionError):  # one side is gone, and so is the other then
            await until_first(
                self._pump(node, driver, self._way(request.path, to_driver=True)),
                self._pump(driver, node, self._way(request.path, to_driver=False)),
            )
        return node

    def _way(self, path: str, *, to_driver: bool) -> Way:
        count = self._counts.to_driver if to_driver else self._counts.to_nodes
        return self._ways.setdefault((path, to_driver), Way(count, self._random))

    async def _pump(self, source: Socket, sink: Socket, way: Way) -> None:
        """Pass on what comes, until the connection ends; then it ends on the other side too."""
        greeted = False
        async for message in source:
            match message.type:
                case WSMsgType.BINARY if greeted:
                    for frame in self._instead_of(message.data, way):
                        await sink.send_bytes(frame)
                case WSMsgType.BINARY:
                    greeted = True
                    await sink.send_bytes(message.data)
                case WSMsgType.TEXT:  # which is no message of ours
                    await sink.send_str(message.data)
                case WSMsgType.PING:
                    await sink.ping(message.data)
                case WSMsgType.PONG:
                    await sink.pong(message.data)
                case _:
                    pass  # nothing that aiohttp hands on
        await sink.close(code=source.close_code or aiohttp.WSCloseCode.GOING_AWAY)

    def _instead_of(self, frame: bytes, way: Way) -> list[bytes]:
        passed = way.instead_of(frame, self._mood())
        if len(passed) > 1:
            write_atomic(_counts_of(self._folder), msgspec.json.encode(self._counts))
        return passed

    def _mood(self) -> Mood:
        try:
            return msgspec.json.decode(_mood_of(self._folder).read_bytes(), type=Mood)
        except FileNotFoundError:
            return Mood()


class _Dated(msgspec.Struct):
    """What is read of a message."""

    epoch: int = 0


def _epoch_of(frame: bytes) -> int:
    try:
        return msgspec.msgpack.decode(frame, type=_Dated).epoch
    except msgspec.DecodeError:
        return 0


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if not _is_of_one_hop(key.lower())}


def _is_of_one_hop(header: str) -> bool:
    return header in HOP or header.startswith("sec-websocket-")


def _mood_of(folder: Path) -> Path:
    return folder / "replaying.json"


def _counts_of(folder: Path) -> Path:
    return folder / "replayed.json"


async def serve(given: argparse.Namespace) -> None:
    """Until whoever started us is gone."""
    ending = asyncio.Event()
    when_owner_is_gone(given.die_with_fd, ending.set)
    connector = aiohttp.UnixConnector(str(given.to), limit=0)
    forever = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=forever) as driver:
        application = web.Application()
        application.router.add_route("GET", "/{path:.*}", Relay(given.state, driver).handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        await web.UnixSite(runner, socket_of(given.state)).start()
        await ending.wait()
        await runner.cleanup()


def main(arguments: Sequence[str] | None = None) -> None:
    made = argparse.ArgumentParser(prog="python -m holdfast.lab.replaying")
    add = made.add_argument
    add("--state", type=Path, required=True, help="folder of its socket, and of what it is told")
    add("--to", type=Path, required=True, help="socket of the driver")
    add("--die-with-fd", type=int, required=True)
    asyncio.run(serve(made.parse_args(arguments)))


if __name__ == "__main__":
    main()

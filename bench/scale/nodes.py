"""Nodes that are two connections each, and nothing else: what a driver hears of them is made up.

Used by `connected`, beside this file. Ranks run as soon as they are wanted, and each node's
heartbeat comes once a period. Written onto the socket by hand, for what this side takes of two
cores the driver does not have.
"""

import asyncio
import base64
import itertools
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ingested import _beat  # type: ignore[import-not-found]
from msgspec.structs import replace

from holdfast.protocol.messages import (
    AskLog,
    Desired,
    FromDaemon,
    Heartbeat,
    Hello,
    LogChunk,
    LogHit,
    Message,
    Observed,
    RankProgress,
    RankStatus,
    Rendezvous,
    ToExecutor,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

RANKS_EACH, LAYOUT = 8, "tp 8, dp N"
ADDRESS, STORE_PORT = "127.0.0.1", 29_500
CONNECTING_AT_ONCE = 64
XID = 63
"""Row remapping recorded: it is only reported, so that each is decided on, and the job goes on."""

LOG = b"step 1, loss 2.5\n"
"""Of each rank."""

BINARY, MASKED = 0x82, 0x80
SHORT, MEDIUM = 126, 127
"""RFC 6455, 5.2. Masked with zeros, a frame is what is in it."""

_WANTED: Decoder[Any] = Decoder(ToExecutor)
_BEATS: Decoder[Any] = Decoder(FromDaemon)


class Driver(NamedTuple):
    """Where it listens, with which token nodes come, and whom they trust for it with TLS."""

    host: str
    port: int
    token: str
    trusted: ssl.SSLContext | None


class Peer(asyncio.Protocol):
    """The far end of one WebSocket: says its Hello, and hands on what comes after the Welcome."""

    def __init__(self, driver: Driver, hello: Hello, received: Callable[[bytes], None]) -> None:
        self._driver = driver
        self._hello = hello
        self._received = received
        self._waiting = bytearray()
        self._upgraded = False
        self._transport: asyncio.Transport
        self.welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, message: Message) -> None:
        self._transport.write(_frame(encode(message)))

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(self._hello.node.encode().ljust(16)[:16]).decode()
        lines = (
            f"GET /v1alpha1/nodes/{self._hello.node}/{self._hello.process} HTTP/1.1",
            f"Host: {self._driver.host}",
            f"Authorization: Bearer {self._driver.token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        )
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if not self._upgraded and not self._upgrade():
            return
        for payload in _frames(self._waiting):
            if self.welcome.done():
                self._received(payload)
            elif isinstance(_WANTED.decode(payload), Welcome):
                self.welcome.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(error or ConnectionError("the driver hung up"))

    def _upgrade(self) -> bool:
        head, found, rest = bytes(self._waiting).partition(b"\r\n\r\n")
        if found and b" 101 " not in head.split(b"\r\n")[0]:
            self._transport.abort()
        elif found:
            self._upgraded, self._waiting[:] = True, rest
            self.send(self._hello)
        return bool(found)


class Node:
    """An executor that does at once what it is told, and a daemon."""

    def __init__(self, name: str, driver: Driver) -> None:
        self.name = name
        self._driver = driver
        self._reports, self._beats = itertools.count(1), itertools.count(1)
        self._peers: dict[str, Peer] = {}
        self._progress: tuple[int, int, tuple[RankProgress, ...]] = (-1, -1, ())
        self.told: Desired | None = None

    async def connect(self) -> None:
        for process, received in (("executor", self._wanted), ("daemon", lambda _: None)):
            hello = Hello(
                protocol=PROTOCOL_VERSION,
                process=process,
                node=self.name,
                incarnation=self._incarnation,
                address=ADDRESS,
            )
            peer = self._peers[process] = Peer(self._driver, hello, received)
            driver = self._driver
            await asyncio.get_running_loop().create_connection(
                lambda peer=peer: peer, driver.host, driver.port, ssl=driver.trusted
            )
            await peer.welcome

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def beat(self, step: int, nodes: int, *, fault: int | None = None) -> None:
        """Say how far its ranks are, of a job on so many nodes; a fault has its number."""
        line = f"Xid {XID}, fault {fault};"
        hit = LogHit(source="kernel", rule="xid", line=line, xid=XID)
        beat = Heartbeat(
            node=self.name,
            incarnation=self._incarnation,
            sequence=next(self._beats),
            uptime_s=0.0,
            ranks=self._ranks(step, nodes),
            logs=() if fault is None else (hit,),
        )
        self._peers["daemon"].send(beat)

    @property
    def trains(self) -> bool:
        return self.told is not None and bool(self.told.seats)

    def _ranks(self, step: int, nodes: int) -> tuple[RankProgress, ...]:
        """Made once a step, for to make them takes ten times as long as to send them."""
        told = self.told
        if told is None or not told.seats:
            return ()
        if self._progress[:2] != (step, told.epoch):
            place = told.seats[0].rank // RANKS_EACH
            made = _BEATS.decode(_beat(LAYOUT, nodes, place, 2 * step))  # two of its beats are one
            ranks = (replace(each, job=told.job, epoch=told.epoch) for each in made.ranks)
            self._progress = step, told.epoch, tuple(ranks)
        return self._progress[2]

    @property
    def _incarnation(self) -> str:
        return f"x-{self.name}"

    def _wanted(self, payload: bytes) -> None:
        message = _WANTED.decode(payload)
        if isinstance(message, Desired):
            self.told = message
            self._peers["executor"].send(self._observed(message))
        elif isinstance(message, AskLog):
            self._peers["executor"].send(LogChunk(id=message.id, data=LOG, end=len(LOG)))

    def _observed(self, told: Desired) -> Observed:
        store = Rendezvous(address=ADDRESS, port=STORE_PORT) if told.host_rendezvous else None
        own = [seat.rank for seat in told.seats if seat.node == self.name]
        return Observed(
            node=self.name,
            incarnation=self._incarnation,
            sequence=next(self._reports),
            generation=told.generation,
            epoch=told.epoch,
            job=told.job,
            attempt=told.attempt,
            ranks=tuple(RankStatus(rank=rank, state="running", pid=rank + 1) for rank in own),
            quiet=not own,
            rendezvous=store,
            launcher="warm",
        )


async def connect_all(nodes: Sequence[Node]) -> None:
    """A few at a time, as a machine with two cores bears it."""
    places = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(node: Node) -> None:
        async with places:
            await node.connect()

    async with asyncio.TaskGroup() as group:
        for node in nodes:
            group.create_task(connect(node))


def _frame(payload: bytes) -> bytes:
    if len(payload) < SHORT:
        head = struct.pack(">BB", BINARY, MASKED | len(payload))
    elif len(payload) < 1 << 16:
        head = struct.pack(">BBH", BINARY, MASKED | SHORT, len(payload))
    else:
        head = struct.pack(">BBQ", BINARY, MASKED | MEDIUM, len(payload))
    return head + b"\0\0\0\0" + payload


def _frames(waiting: bytearray) -> Iterable[bytes]:
    """Whole frames, which are taken out of `waiting`; the driver sends no longer ones in parts."""
    while len(waiting) >= 2:
        begin, length = 2, waiting[1]
        if length == SHORT:
            begin, length = 4, int.from_bytes(waiting[2:4], "big")
        elif length == MEDIUM:
            begin, length = 10, int.from_bytes(waiting[2:10], "big")
        if len(waiting) < begin + length:
            return
        payload = bytes(waiting[begin : begin + length])
        del waiting[: begin + length]
        yield payload

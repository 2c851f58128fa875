"""A fake driver on a real WebSocket, and a daemon in this process that talks to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from holdfast.daemon.loop import Daemon
from holdfast.daemon.settings import Settings
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import (
    Acknowledged,
    BurstTaken,
    FromDaemon,
    Heartbeat,
    Hello,
    Message,
    WatchOrder,
    Welcome,
)
from holdfast.protocol.paths import NodePaths
from holdfast.protocol.wire import Decoder, encode
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter

DECODER: Decoder[FromDaemon] = Decoder(FromDaemon)


class FakeDriver:
    """Greets daemons, keeps what they say, and acknowledges it unless told not to."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.watch = WatchOrder(heartbeat_period_s=0.1)
        self.answer: Message = Welcome(term=1)
        self.acknowledges = True
        self.kept = float("inf")  # the last heartbeat of which nothing can be lost any more
        self.hellos: list[Hello] = []
        self.requests: list[tuple[str, str]] = []
        self.beats: list[Heartbeat] = []
        self.others: list[BurstTaken] = []
        self.connections: set[ServerConnection] = set()
        self._server: Any = None

    async def open(self) -> None:
        self._server = await unix_serve(self._serve, str(self.socket), compression=None)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
            self.socket.unlink(missing_ok=True)

    async def say(self, message: Message) -> None:
        for connection in tuple(self.connections):
            await connection.send(encode(message))

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        headers = connection.request.headers
        self.requests.append((connection.request.path, headers.get("Authorization", "")))
        hello = DECODER.decode(await connection.recv())
        assert isinstance(hello, Hello)
        self.hellos.append(hello)
        await connection.send(encode(self.answer))
        if not isinstance(self.answer, Welcome):
            return
        self.connections.add(connection)
        await connection.send(encode(self.watch))
        try:
            async for frame in connection:
                beat = DECODER.decode(frame)
                if isinstance(beat, BurstTaken):
                    self.others.append(beat)
                    continue
                assert isinstance(beat, Heartbeat)
                self.beats.append(beat)
                if self.acknowledges:
                    sequence = int(min(beat.sequence, self.kept))
                    now_s = SystemClock().monotonic_s()
                    times = {"sent_s": beat.sent_s, "came_s": now_s, "answered_s": now_s}
                    await connection.send(encode(Acknowledged(sequence=sequence, **times)))
        finally:
            self.connections.discard(connection)


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[FakeDriver]:
    driver = FakeDriver(tmp_path / "driver.sock")
    await driver.open()
    yield driver
    await driver.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    paths = NodePaths(scratch=tmp_path / "scratch", memory=tmp_path / "memory")
    paths.scratch.mkdir()
    paths.rings.mkdir(parents=True)
    paths.kernel_log.touch()
    net = paths.sys / "class" / "net" / "eth0"
    (net / "statistics").mkdir(parents=True)
    (net / "carrier").write_text("1")
    (tmp_path / "token").write_text("secret\n")
    return Settings(
        node="node-1",
        address="127.0.0.1",
        interface="",
        driver_urls=(f"unix:{tmp_path / 'driver.sock'}",),
        token_file=tmp_path / "token",
        paths=paths,
        probe_port=0,
    )


@pytest.fixture
async def daemon(settings: Settings) -> AsyncIterator[Daemon]:
    """Running, and ended after the test."""
    daemon = Daemon(settings, SystemClock(), "one", parent=1)
    running = asyncio.create_task(daemon.run())
    yield daemon
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.fixture
def make_rank(settings: Settings) -> Callable[[int], Recorder]:
    """A ring of this process, as if it were a rank."""

    def make(rank: int) -> Recorder:
        return Recorder(RingWriter(settings.paths.ring("job", 2, rank), rank=rank, epoch=2))

    return make

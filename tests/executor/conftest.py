"""A driver that speaks messages and decides nothing, and a real executor below a host."""

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from waiting import DEADLINE_S, eventually_async
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from holdfast.executor.adapters.proctree import below
from holdfast.executor.adapters.sockets import sweep
from holdfast.protocol import messages as m
from holdfast.protocol.paths import RunPaths
from holdfast.protocol.wire import Decoder, encode

TOKEN = "token-of-this-test"
NODE = "node-1"


class FakeDriver:
    """Answers Hello, keeps the newest Observed with when it came, sends what it is told."""

    def __init__(self) -> None:
        self.decoder: Decoder[Any] = Decoder(m.FromExecutor)
        self.server: Server | None = None
        self.connection: ServerConnection | None = None
        self.hellos: list[m.Hello] = []
        self.seen: m.Observed | None = None
        self.seen_at = 0.0
        self.history: list[m.Observed] = []
        self.refusals: list[m.Refused] = []
        self.answers: dict[str, Any] = {}
        self.keeps_bytes = 0
        self.last_lines: list[m.LastLines] = []
        self.desired: m.Desired | None = None
        self.paths: list[tuple[str, str]] = []
        self.port = 0
        self.generation = 0
        self.term = 1

    async def start(self) -> None:
        self.server = await serve(
            self._serve, "127.0.0.1", self.port, compression=None, ping_interval=None
        )
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.server.wait_closed()
        self.connection = None

    async def _serve(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        self.paths.append((request.path, request.headers["Authorization"]))
        hello = self.decoder.decode(await connection.recv())
        await connection.send(encode(m.Welcome(term=self.term, keeps_bytes=self.keeps_bytes)))
        self.connection = connection
        self.hellos.append(hello)  # last: who waits for it sends something next
        if self.desired is not None:
            await connection.send(encode(self.desired))
        try:
            async for frame in connection:
                self._take(self.decoder.decode(frame))
        except ConnectionClosed:
            return

    def _take(self, message: Any) -> None:
        match message:
            case m.Observed():
                self.seen, self.seen_at = message, time.monotonic()
                self.history.append(message)
            case m.LastLines():
                self.last_lines.append(message)
            case m.Refused():
                self.refusals.append(message)
            case m.Stacks() | m.LogChunk():
                self.answers[message.id] = message

    async def send(self, message: m.Message) -> None:
        assert self.connection is not None
        if isinstance(message, m.Desired):
            self.desired = message
        await self.connection.send(encode(message))

    async def eventually(
        self, fact: Callable[[m.Observed], Any], within_s: float = DEADLINE_S
    ) -> m.Observed:
        """The first observation of which `fact` holds."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self.seen is not None and fact(self.seen):
                return self.seen
            await asyncio.sleep(0.005)
        raise AssertionError(f"not seen within {within_s} s; last: {self.seen}")


class Node:
    """A driver, an executor below a host, and short words for what tests do with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = FakeDriver()
        self.host: subprocess.Popen[bytes] | None = None
        self.executor = 0
        self.epoch = 0

    async def start(self) -> None:
        (self.folder / "token").write_text(TOKEN)
        if self.driver.server is None:
            await self.driver.start()
        connected = len(self.driver.hellos)
        env = {
            **os.environ,
            "HOLDFAST_NODE": NODE,
            "HOLDFAST_NODE_ADDRESS": "127.0.0.1",
            "HOLDFAST_DRIVER_URL": f"http://127.0.0.1:{self.driver.port}",
            "HOLDFAST_NODE_TOKEN_FILE": str(self.folder / "token"),
            "HOLDFAST_SCRATCH": str(self.folder / "scratch"),
            "HOLDFAST_MEMORY": str(self.folder / "memory"),
        }
        with (self.folder / "executor.log").open("ab") as log:
            self.host = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("host.py"))],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.host.stdout is not None
        self.executor = int(self.host.stdout.readline())
        await eventually_async(lambda: len(self.driver.hellos) > connected)

    async def end(self) -> None:
        if self.host is not None:
            assert self.host.stdin is not None
            assert self.host.stdout is not None
            self.host.stdin.close()
            await asyncio.to_thread(self.host.wait, DEADLINE_S)
            self.host.stdout.close()
            self.host = None

    def script(self, text: str) -> Path:
        folder = self.folder / f"script_{self.epoch}"
        folder.mkdir(exist_ok=True)
        path = folder / "script.py"
        path.write_text(textwrap.dedent(text))
        return path

    def task(self, *command: str, **more: Any) -> m.Task:
        more = {"workdir": str(self.folder), "log_root": str(self.folder / "run")} | more
        return m.Task(command=command, **more)

    def python(self, text: str, *arguments: str, **more: Any) -> m.Task:
        return self.task(sys.executable, str(self.script(text)), *arguments, **more)

    def desired(self, task: m.Task | None, *, ranks: int = 0, **more: Any) -> m.Desired:
        """The next generation; a new epoch unless one is given."""
        self.driver.generation += 1
        self.epoch = max(self.epoch, more.setdefault("epoch", self.epoch + 1))
        seats = tuple(
            m.Seat(rank=rank, local_rank=rank, node=NODE, address="127.0.0.1")
            for rank in range(ranks)
        )
        values: dict[str, Any] = {
            "node": NODE,
            "generation": self.driver.generation,
            "term": self.driver.term,
            "job": "job",
            "attempt": self.epoch,
            "task": task,
            "seats": seats,
            "world_size": ranks,
            "places": 1,
            "rendezvous": m.Rendezvous(address="127.0.0.1", port=1) if ranks else None,
        }
        return m.Desired(**values | more)

    async def want(self, task: m.Task | None, *, ranks: int = 0, **more: Any) -> m.Desired:
        desired = self.desired(task, ranks=ranks, **more)
        await self.driver.send(desired)
        return desired

    async def launch(self, task: m.Task, *, ranks: int, **more: Any) -> m.Desired:
        """As a driver does: quiet with a store first, then the seats of the same epoch."""
        await self.want(task, host_rendezvous=True)
        epoch = self.epoch
        told = await self.driver.eventually(lambda o: o.epoch == epoch and o.rendezvous and o.quiet)
        return await self.want(
            task, ranks=ranks, host_rendezvous=True, epoch=epoch, rendezvous=told.rendezvous, **more
        )

    async def exited(self, ranks: int, within_s: float = DEADLINE_S) -> list[m.RankStatus]:
        """The statuses of all ranks of this epoch, once they have ended."""
        epoch = self.epoch
        seen = await self.driver.eventually(
            lambda o: (
                o.epoch == epoch
                and len(o.ranks) == ranks
                and all(rank.state == "exited" for rank in o.ranks)
            ),
            within_s,
        )
        return list(seen.ranks)

    async def running(self, ranks: int, within_s: float = DEADLINE_S) -> list[int]:
        """The pids of all ranks of this epoch, once they run."""
        epoch = self.epoch
        seen = await self.driver.eventually(
            lambda o: (
                o.epoch == epoch
                and len(o.ranks) == ranks
                and all(rank.state == "running" for rank in o.ranks)
            ),
            within_s,
        )
        return [rank.pid for rank in seen.ranks]

    def output(self, rank: int = 0, stream: str = "stdout", epoch: int = 0) -> str:
        folder = RunPaths(self.folder / "run").rank("job", epoch or self.epoch, rank)
        path = folder / f"{stream}.log"
        return path.read_text() if path.exists() else ""

    def below(self) -> list[int]:
        """Every living process below the host but the executor itself."""
        assert self.host is not None
        return [pid for pid in below(self.host.pid) if pid != self.executor]


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[Node]:
    node = Node(folder)
    try:
        await node.start()
        yield node
    finally:
        await node.end()
        await node.driver.stop()
        sweep(Path(tempfile.gettempdir()))
        log = (folder / "executor.log").read_text()
        if "Traceback" in log:
            print(log)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    """One executor for all tests of a module that do not harm it: each has its own epoch."""
    async with _running(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared_node: Node) -> Node:
    """The shared executor, with a driver that remembers nothing of the test before."""
    shared_node.driver.refusals.clear()
    shared_node.driver.answers.clear()
    return shared_node


@pytest_asyncio.fixture(loop_scope="module")
async def own_node(tmp_path: Path) -> AsyncIterator[Node]:
    """An executor of the test's own, to be killed."""
    async with _running(tmp_path) as node:
        yield node

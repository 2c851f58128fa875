"""A real driver's loop, journal and REST application on a real port; the nodes are scripted."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from in_memory import folder_in_memory
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.adapters.tokens import load_tokens
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.policy import Policy
from holdfast.driver.loop import Loop
from holdfast.driver.people.access import TokenHolders
from holdfast.driver.people.control import Control
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Watch
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Desired, Hello, Observed
from holdfast.protocol.paths import RunPaths

JOB: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech", "labels": {"team": "speech"}},
    "spec": {"nodes": 1, "ranksPerNode": 2, "command": ["python", "train.py"]},
}


class ScriptedNodes:
    """The port to executors, answering from what a test has put into it."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int, int, str], bytes] = {}
        self.unreachable = ""
        self.no_logs = False

    def instruct(self, desired: Desired) -> None:
        pass

    def hello(self, node: str) -> Hello | None:
        return None

    def observed(self, node: str) -> Observed | None:
        return None

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        return {}

    async def log(
        self, node: str, job: str, *, attempt: int, rank: int, stream: str, offset: int
    ) -> tuple[bytes, int]:
        if self.unreachable:
            raise TemporaryError(self.unreachable)
        if self.no_logs:
            raise PermanentError(f"log: rank {rank} has no {stream} of attempt {attempt} of {job}")
        data = self.logs.get((job, attempt, rank, stream), b"")
        begin = max(0, len(data) + offset) if offset < 0 else offset
        return data[begin : begin + 65_536], min(len(data), begin + 65_536)


class Driver:
    """One driver under test: what people see of it (`http`), and its inside."""

    def __init__(self, http: httpx.AsyncClient, loop: Loop, control: Control) -> None:
        self.http = http
        self.loop = loop
        self.control = control
        self.nodes = ScriptedNodes()
        self.effects: list[AnyEffect] = []

    async def happened(self, *events: AnyEvent) -> None:
        """Tell the core, and wait until what they led to is in the journal."""
        done = asyncio.Event()
        *first, last = events
        for event in first:
            self.loop.post(event)
        self.loop.post(last, done=done.set)
        await asyncio.wait_for(done.wait(), DEADLINE_S)

    async def submit(self, **metadata: Any) -> httpx.Response:
        document = {**JOB, "metadata": {**JOB["metadata"], **metadata}}
        return await self.http.post("/v1alpha1/jobs", json=document)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def token(tmp_path: Path) -> str:
    load_tokens(RunPaths(tmp_path))
    return RunPaths(tmp_path).user_token.read_text().strip()


@pytest.fixture
async def driver(tmp_path: Path, token: str) -> AsyncIterator[Driver]:
    journal = open_sqlite(tmp_path / "journal.sqlite", reserve_bytes=65_536)
    clock = SystemClock()
    loop = Loop(journal, clock=clock, policy=Policy())
    nodes = ScriptedNodes()
    control = Control(
        loop,
        journal=journal,
        last_lines=journal,
        nodes=nodes,
        watch=Watch(),
        people=TokenHolders(load_tokens(RunPaths(tmp_path))),
        settings=Settings(state=tmp_path, _cli_parse_args=[]),
        clock=clock,
    )
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(make_app(control)))
        headers = {"Authorization": f"Bearer {token}"}
        http = httpx.AsyncClient(
            base_url=url, headers=headers, trust_env=False, verify=False, timeout=DEADLINE_S
        )
        made = Driver(await stack.enter_async_context(http), loop, control)
        made.nodes = nodes
        await loop.start(perform=made.effects.append, follow=lambda _state: None)
        running = asyncio.create_task(loop.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    journal.close()


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """`app` on a free port of loopback."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=int(DEADLINE_S),  # else it may hang up on a client that stood still
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve([listening]))
    await eventually_async(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    await serving
    listening.close()

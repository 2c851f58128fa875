"""A keeper and executors as a test wants them, on real sockets: no rank ever runs.

Used by tests of the driver's process.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace
from running_driver import DriverProcess
from waiting import DEADLINE_S
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from holdfast.protocol import keeping
from holdfast.protocol.messages import (
    Desired,
    Hello,
    Observed,
    RankStatus,
    Rendezvous,
    Snapshot,
    ToExecutor,
)
from holdfast.protocol.paths import RunPaths
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

STEP_OF_SNAPSHOTS = 6
_FROM_DRIVER: Decoder[Any] = Decoder(ToExecutor)


class ScriptedKeeper:
    """A keeper whose nodes are all there and whose calls all succeed."""

    def __init__(self, nodes: list[str]) -> None:
        self._nodes = nodes
        self.allocated: dict[str, str] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError), closing(writer):
            head = await reader.readexactly(keeping.LENGTH.size)
            said = keeping.request_of(await reader.readexactly(keeping.body_length(head)))
            if isinstance(said, keeping.WatchFacts):
                for node in self._nodes:
                    writer.write(keeping.frame(keeping.NodeFact(node=node, rack="r")))
                await reader.read()  # until the driver hangs up
            elif isinstance(said, keeping.Allocate):
                self.allocated[said.node] = said.job
            writer.write(keeping.frame(keeping.Done()))


class ScriptedExecutor:
    """Does as told and reports; in its first attempt rank 1 dies, in the next all go well."""

    def __init__(self, node: str, paths: RunPaths) -> None:
        self._paths = paths
        self._hello = Hello(
            protocol=PROTOCOL_VERSION, process="executor", node=node, incarnation=f"{node}-a"
        )
        self._seen = Observed(node=node, incarnation=f"{node}-a", sequence=0, generation=0, epoch=0)
        self.attempts: list[int] = []
        self.may_end = asyncio.Event()
        self.asked = asyncio.Event()
        """It was told to end ranks that it had, and has."""
        self.may_say = asyncio.Event()
        self.may_say.set()

    async def run(self) -> None:
        """For ever: connect, follow, connect again."""
        while True:
            with suppress(OSError, ConnectionClosed, ValueError, TimeoutError):
                url = json.loads(self._paths.address.read_text())["http"]
                token = self._paths.node_token.read_text().strip()
                async with connect(
                    f"ws{url.removeprefix('http')}/v1alpha1/nodes/{self._hello.node}/executor",
                    additional_headers={"Authorization": f"Bearer {token}"},
                    compression=None,
                    proxy=None,
                    ping_interval=None,
                ) as driver:
                    await self._follow(driver)
            await asyncio.sleep(0.02)

    async def _follow(self, driver: ClientConnection) -> None:
        await driver.send(encode(self._hello))
        await self._report(driver)
        async for frame in driver:
            message = _FROM_DRIVER.decode(frame)
            if isinstance(message, Desired):
                self._converge(message)
                if self.attempts and not self._seen.ranks:
                    self.asked.set()
                    await self.may_say.wait()
                await self._report(driver)
                if self._seen.ranks and self._seen.attempt > 1:
                    await self.may_end.wait()
                    self._set(ranks=self._ended(exit_code=0))
                    await self._report(driver)

    def _converge(self, told: Desired) -> None:
        own = [seat.rank for seat in told.seats if seat.node == told.node]
        place = {"generation": told.generation, "epoch": told.epoch, "job": told.job}
        if not own:
            held = (Snapshot(rank=r, step=STEP_OF_SNAPSHOTS, epoch=1) for r in range(2))
            listens = Rendezvous(address="127.0.0.1", port=4000 + told.epoch)
            self._set(
                **place,
                ranks=(),
                quiet=True,
                rendezvous=listens if told.host_rendezvous else None,
                snapshots=tuple(held) if self.attempts else (),
            )
        elif told.attempt not in self.attempts:
            self.attempts.append(told.attempt)
            run = tuple(RankStatus(rank=rank, state="running", pid=1) for rank in own)
            self._set(**place, attempt=told.attempt, ranks=run, quiet=True)
            if told.attempt == 1 and 1 in own:
                self._set(ranks=self._ended(signal=9))
        else:
            self._set(**place)

    def _ended(self, **how: int) -> tuple[RankStatus, ...]:
        return tuple(replace(each, state="exited", order=1, **how) for each in self._seen.ranks)

    def _set(self, **changes: Any) -> None:
        self._seen = replace(self._seen, **changes)

    async def _report(self, driver: ClientConnection) -> None:
        self._set(sequence=self._seen.sequence + 1)
        await driver.send(encode(self._seen))


@asynccontextmanager
async def scripted_cluster(
    driver: DriverProcess, tmp_path: Path
) -> AsyncIterator[dict[str, ScriptedExecutor]]:
    """A keeper and two executors, which outlive drivers."""
    names = ["node-1", "node-2"]
    executors = {name: ScriptedExecutor(name, driver.paths) for name in names}
    keeper = await asyncio.start_unix_server(ScriptedKeeper(names).answer, tmp_path / "keeper.sock")
    async with keeper:
        tasks = [asyncio.create_task(each.run()) for each in executors.values()]
        try:
            yield executors
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def submit(driver: DriverProcess) -> None:
    where = json.loads(driver.paths.address.read_text())
    job = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job"},
        "spec": {"nodes": 2, "ranksPerNode": 1, "command": ["train"]},
    }
    token = driver.paths.user_token.read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "once"}
    async with httpx.AsyncClient(
        trust_env=False, verify=False, headers=headers, timeout=DEADLINE_S
    ) as client:
        answer = await client.post(f"{where['http']}/v1alpha1/jobs", json=job)
    assert answer.status_code == 201, answer.text


def is_done(driver: DriverProcess) -> bool:
    return any("is done: every rank ended" in entry.why for entry in driver.journal())

"""Nodes with real connections to a driver's own process: its memory, its CPU, and how soon it acts.

A script: `connected.py NODES [tls]` prints a line of JSON for each stage. The driver is the process
that people start, with its journal; nodes, a keeper and viewers are this process, on sockets. A
quarter as many nodes come and train before anything is measured, so that what a driver takes but
once is not counted; then NODES come, and train one job. A fault is told in a heartbeat every tenth
of a second while 100 viewers follow all entries, and time goes from there to when a viewer has read
what was decided. It needs of Holdfast what earlier commits have as well.
"""

import asyncio
import contextlib
import http.client
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nodes import RANKS_EACH, Node, connect_all  # type: ignore[import-not-found]
from process import DriverProcess, Keeper, driver  # type: ignore[import-not-found]
from viewers import view  # type: ignore[import-not-found]

from holdfast.kit.limits import raise_open_files

VIEWERS, MOST_FAULTS, EVERY_S = 100, 100, 0.1
PERIOD_S, MOST_A_S = 0.5, 2_000.0
"""Of heartbeats, as the driver tells daemons: as often as that, and all together no more."""
ROUNDS = 6
"""Heartbeats of each node, before what the driver holds is looked at."""
STEP_S = 5.0
WITHIN_S, LOOK_S = 120.0, 0.05


class Fleet:
    """All nodes there are, whose heartbeats come in turn."""

    def __init__(self, driver: DriverProcess, keeper: Keeper) -> None:
        self._driver, self._keeper = driver, keeper
        self._now = asyncio.get_running_loop().time
        self._nodes: list[Node] = []
        self._jobs: dict[str, int] = {}
        self._began_s = self._now()
        self.beats = 0

    async def come(self, prefix: str, number: int) -> list[Node]:
        names = [f"{prefix}-{k}" for k in range(number)]
        nodes = [Node(name, self._driver.at) for name in names]
        await self._keeper.add(names)
        await connect_all(nodes)
        self._nodes += nodes
        return nodes

    async def train(self, job: str, number: int) -> None:
        """Returns once every rank of the job runs."""
        self._jobs[job] = number
        await asyncio.to_thread(_submit, self._driver, job, number)
        await _until(lambda: self._training(job) == number, f"all nodes of {job} run")

    async def rounds(self, number: int) -> None:
        """Until each node has told of itself so often."""
        wanted = self.beats + number * len(self._nodes)
        await _until(lambda: self.beats >= wanted, "all heartbeats are sent")

    async def beat(self) -> None:
        """For ever, each node's in its turn."""
        due_s = self._now()
        while True:
            for number, node in enumerate(tuple(self._nodes)):
                due_s += max(PERIOD_S / len(self._nodes), 1 / MOST_A_S)
                if due_s > self._now():
                    await asyncio.sleep(due_s - self._now())
                elif number % 20 == 0:
                    await asyncio.sleep(0)
                self.tell(node)
            await asyncio.sleep(0)

    def close(self) -> None:
        for node in self._nodes:
            node.close()

    def tell(self, node: Node, fault: int | None = None) -> float:
        """Send its heartbeat, with this fault; the time at which that was."""
        job = (node.told and node.told.job) or ""
        now_s = self._now()
        node.beat(int((now_s - self._began_s) / STEP_S), self._jobs.get(job, 1), fault=fault)
        self.beats += 1
        return now_s

    def _training(self, job: str) -> int:
        told = [node.told for node in self._nodes if node.told is not None]
        return sum(each.job == job and bool(each.seats) for each in told)


def _submit(driver: DriverProcess, job: str, nodes: int) -> None:
    document = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": job},
        "spec": {
            "nodes": nodes,
            "ranksPerNode": RANKS_EACH,
            "topology": {"tp": RANKS_EACH, "dp": nodes},
            "command": ["train"],
        },
    }
    headers = {"Authorization": f"Bearer {driver.person}", "Content-Type": "application/json"}
    with contextlib.closing(_asking(driver)) as connection:
        connection.request("POST", "/v1alpha1/jobs", json.dumps(document), headers)
        answer = connection.getresponse()
        if answer.status >= 300:
            raise RuntimeError(f"{job} was refused: {answer.read().decode()}")


def _asking(driver: DriverProcess) -> http.client.HTTPConnection:
    at = driver.at
    if at.trusted is not None:
        return http.client.HTTPSConnection(at.host, at.port, context=at.trusted)
    return http.client.HTTPConnection(at.host, at.port)


async def _until(fact: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while not fact():
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise RuntimeError(f"within {WITHIN_S:.0f} s it did not come that {what}") from None


async def measure(nodes: int, folder: Path, *, tls: bool) -> AsyncIterator[dict[str, Any]]:
    keeper, at = Keeper(), folder / "keeper.sock"
    async with keeper.serving(at), driver(folder, at, tls=tls) as process:
        fleet = Fleet(process, keeper)
        first = await view(process.at, process.person, 0, lambda _: None)
        beating = asyncio.create_task(fleet.beat())
        try:
            few = max(2, nodes // 4)
            await fleet.come("early", few)
            await fleet.train("early", few)
            await fleet.rounds(ROUNDS)
            before = process.resident_bytes()
            came = await fleet.come("node", nodes)
            await fleet.rounds(ROUNDS)
            yield {"stage": "connected", "held_bytes": process.resident_bytes() - before}
            await fleet.train("job", nodes)
            cpu_s, beats = process.cpu_s(), fleet.beats
            await fleet.rounds(ROUNDS)
            cpu_s, beats = process.cpu_s() - cpu_s, fleet.beats - beats
            held_bytes = process.resident_bytes() - before
            yield {"stage": "training", "held_bytes": held_bytes, "heartbeat_s": cpu_s / beats}
            yield await _faults(fleet, process, came, first.latest)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            fleet.close()
            first.close()


async def _faults(
    fleet: Fleet, process: DriverProcess, nodes: Sequence[Node], after: int
) -> dict[str, Any]:
    """How soon a fault's decision was read: by the first of all viewers, and by each of them."""
    now = asyncio.get_running_loop().time
    told_s: dict[int, float] = {}
    read_s: dict[int, list[float]] = {}

    def saw(fault: int) -> None:
        read_s.setdefault(fault, []).append(now() - told_s[fault])

    viewers = [await view(process.at, process.person, after, saw) for _ in range(VIEWERS)]
    try:
        for fault, node in enumerate(islice(nodes, MOST_FAULTS)):
            if not node.trains:
                raise RuntimeError(f"{node.name} trains no more: too busy a machine")
            told_s[fault] = fleet.tell(node, fault)
            await asyncio.sleep(EVERY_S)
        await _until(
            lambda: sum(map(len, read_s.values())) == len(told_s) * VIEWERS,
            "every viewer has read of every fault",
        )
    finally:
        for each in viewers:
            each.close()
    decided_s = sorted(each[0] for each in read_s.values())
    all_s = sorted(one for each in read_s.values() for one in each)
    return {
        "stage": "fault",
        "decided_s": decided_s[len(decided_s) // 2],
        "decided_p99_s": decided_s[int(len(decided_s) * 0.99)],
        "read_p99_s": all_s[int(len(all_s) * 0.99)],
    }


async def _run(nodes: int, *, tls: bool) -> None:
    over = ", sockets with TLS" if tls else ", sockets"
    with TemporaryDirectory() as folder:
        async for found in measure(nodes, Path(folder), tls=tls):
            found["stage"] += over
            print(json.dumps({"nodes": nodes, **found}), flush=True)


def main() -> None:
    raise_open_files()
    asyncio.run(_run(int(sys.argv[1]), tls=sys.argv[2:] == ["tls"]))


if __name__ == "__main__":
    main()

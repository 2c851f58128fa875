"""Our reflector and typed watches of `kubernetes.aio`, on the same objects and the same events.

Called by `turns`. Each reader is a process of its own; first lists come one after the other, the
events to both at once.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.bench.figures import Try
from holdfast.bench.kubernetes import fleet, job
from holdfast.bench.kubernetes.seen import Late, pods_of
from holdfast.driver.adapters.kubernetes import names
from holdfast.kubeapi import paths

SYSTEMS = {"ours": "holdfast", "typed": "kubernetes.aio, typed"}
WITHIN_S = 120.0
LOOK_S = 0.2
MIB = 2**20

Said = dict[str, float]


class Reader:
    """One running reader, and what it said when it had listed all."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.first: Said = {}

    async def said(self) -> Said:
        """Its next line. Raises `Late`."""
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), WITHIN_S)
        except TimeoutError:
            raise Late(f"a reader said nothing for {WITHIN_S:g} s") from None
        if not line:
            raise Late("a reader has ended")
        found: Said = json.loads(line)
        return found

    async def asked(self) -> Said:
        assert self._process.stdin is not None
        self._process.stdin.write(b"?\n")
        return await self.said()


@asynccontextmanager
async def reading(kind: str, kubeconfig: Path) -> AsyncIterator[Reader]:
    """A reader that has listed all there is; it ends with the `with`, and with this process."""
    words = [sys.executable, "-m", "holdfast.bench.kubernetes.reader", kind, str(kubeconfig)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
    reader = Reader(process)
    try:
        reader.first = await reader.said()
        yield reader
    finally:
        process.kill()
        await process.communicate()


async def compared(kubeconfig: Path, number: int, size: str) -> list[Try]:
    """Who begins changes from round to round."""
    first, second = ("typed", "ours") if number % 2 else ("ours", "typed")
    async with (
        reading(first, kubeconfig) as one,
        reading(second, kubeconfig) as other,
    ):
        readers = {first: one, second: other}
        costs = await _events(kubeconfig, readers)
    tries: list[Try] = []
    for kind, reader in readers.items():
        system, said = SYSTEMS[kind], reader.first
        note = f"{said['objects']:.0f} objects"
        tries += [
            Try(
                system=system, figure=f"first full list, {size}", value=said["listed_s"], note=note
            ),
            Try(
                system=system,
                figure=f"memory of the copy, {size}",
                unit="MiB",
                value=said["memory_bytes"] / MIB,
            ),
            Try(
                system=system,
                figure=f"CPU of an event, {size}",
                unit="ms",
                value=1_000 * costs[kind],
            ),
        ]
    return tries


async def _events(kubeconfig: Path, readers: dict[str, Reader]) -> dict[str, float]:
    """CPU seconds an event, by reader: of one change of each of the gang's pods."""
    async with (
        fleet.client_of(kubeconfig) as client,
        pods_of(client, f"{names.JOB}={job.GANG}") as seen,
    ):
        await seen.until(lambda: seen.count > 0, "pods are listed", WITHIN_S)
        pods = [told["metadata"]["name"] for told in seen.objects.values()]
        before = {kind: await reader.asked() for kind, reader in readers.items()}
        change = {"metadata": {"annotations": {"bench.holdfast.dev/changed": "yes"}}}
        await fleet.for_each(
            pods, lambda name: client.patch(paths.pods(fleet.NAMESPACE, name), change)
        )
    after = {kind: await _having(readers[kind], before[kind], len(pods)) for kind in readers}
    return {
        kind: (after[kind]["cpu_s"] - before[kind]["cpu_s"])
        / (after[kind]["events"] - before[kind]["events"])
        for kind in readers
    }


async def _having(reader: Reader, before: Said, events: int) -> Said:
    """What it says once it has seen so many events more."""
    async with asyncio.timeout(WITHIN_S):
        while (now := await reader.asked())["events"] - before["events"] < events:
            await asyncio.sleep(LOOK_S)
    return now

"""The kubelet's end of the sockets at which the nodes' runtimes take orders.

Used by `agent` and `pod`. A runtime that does not answer is an `OSError`, and tried again by
whoever asked; its containers are known again with the first snapshot.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from holdfast.lab.emulator.kubelet import orders
from holdfast.lab.emulator.kubelet.orders import Done, Snapshot

ANSWERS_WITHIN_S = 10.0
LONGEST_ANSWER_BYTES = 4 << 20


class Refused(Exception):
    """The runtime could not do it; the message is its own."""


class RuntimeOf:
    """The runtime of one node, by the node's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = orders.socket_path(folder)

    async def order(self, order: orders.Order, within_s: float = ANSWERS_WITHIN_S) -> None:
        """Have it done. Raises `Refused`, or `OSError` where no runtime answers."""
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            writer.write(msgspec.json.encode(order) + b"\n")
            async with asyncio.timeout(within_s):
                line = await reader.readline()
        finally:
            writer.close()
        if not line:
            raise ConnectionResetError(f"the runtime at {self._path} ended")
        done = msgspec.json.decode(line, type=Done)
        if done.error:
            raise Refused(done.error)

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """What it has, now and after each change. Raises `OSError` when it is gone."""
        reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_ANSWER_BYTES)
        try:
            writer.write(msgspec.json.encode(orders.Subscribe()) + b"\n")
            while line := await reader.readline():
                yield msgspec.json.decode(line, type=Snapshot)
        finally:
            writer.close()
        raise ConnectionResetError(f"the runtime at {self._path} ended")

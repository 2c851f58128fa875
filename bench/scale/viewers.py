"""Who follows the driver's events over sockets, and notes when each fault's entry was read.

Used by `connected`, beside this file.
"""

import asyncio
import re
from collections.abc import Callable

from nodes import Driver  # type: ignore[import-not-found]

IDS = re.compile(rb"^id: (\d+)$", re.MULTILINE)
FAULTS = re.compile(rb"fault (\d+);")
TAIL_BYTES = 64
"""Kept of what was read, for what is looked for may come in two pieces."""


class Viewer(asyncio.Protocol):
    """One stream of events, from an entry on."""

    def __init__(self, driver: Driver, person: str, after: int, saw: Callable[[int], None]) -> None:
        self._driver = driver
        self._person = person
        self._saw = saw
        self._tail = b""
        self._known: set[int] = set()
        self._transport: asyncio.Transport
        self.latest = after
        self.answered = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        lines = (
            f"GET /v1alpha1/events?after={self.latest} HTTP/1.1",
            f"Host: {self._driver.host}",
            f"Authorization: Bearer {self._person}",
        )
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def data_received(self, data: bytes) -> None:
        self.answered.set()
        seen = self._tail + data
        self.latest = max([self.latest, *map(int, IDS.findall(seen))])
        for fault in {*map(int, FAULTS.findall(seen))} - self._known:
            self._known.add(fault)
            self._saw(fault)
        self._tail = seen[-TAIL_BYTES:]

    def close(self) -> None:
        self._transport.abort()


async def view(driver: Driver, person: str, after: int, saw: Callable[[int], None]) -> Viewer:
    """Begin to follow; returns once the driver has answered."""
    viewer = Viewer(driver, person, after, saw)
    await asyncio.get_running_loop().create_connection(
        lambda: viewer, driver.host, driver.port, ssl=driver.trusted
    )
    await viewer.answered.wait()
    return viewer

"""The journal, a page at a time, for all who follow it: who asks for the same is given the same.

Used by `events`. Reading and writing happen in a thread, once however many follow, so that a crowd
that reads, or does not, takes no time from the driver's loop.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from holdfast.driver.people.control import Control
from holdfast.driver.ports import Entry

PAGE_ENTRIES = 50
"""Read at once: they are kept until whoever follows has taken them."""

KEEP_ALIVE_S = 15.0
"""Who follows hears something this often: proxies close a silent stream (HTML Living Standard,
9.2.7)."""

KEPT = 32
"""Whole pages that are kept for who comes next: a crowd comes together."""


class Page(NamedTuple):
    """Entries that follow a sequence; `last`: the sequence of the last of them."""

    last: int
    written: tuple[tuple[tuple[str, ...], bytes], ...]  # with the jobs that each is about
    whole: bytes

    def of(self, job: str | None) -> bytes:
        """What of it is about the job; None: all."""
        if job is None:
            return self.whole
        return b"".join(data for jobs, data in self.written if job in jobs)


class _Coming(NamedTuple):
    """What all wait for who have seen the same; an event costs each of them less than a task."""

    page: asyncio.Task[Page]
    came: asyncio.Event


class Pages:
    """Of one driver's journal. On its event loop."""

    def __init__(self, control: Control, written: Callable[[Entry], bytes]) -> None:
        self._control = control
        self._written = written
        self._reading: dict[int, asyncio.Task[Page]] = {}
        self._kept: OrderedDict[int, Page] = OrderedDict()
        self._coming: dict[int, _Coming] = {}

    async def following(self, sequence: int) -> Page:
        """What follows, once anything does; nothing where nothing did for KEEP_ALIVE_S. Raises
        `TemporaryError`."""
        if (kept := self._kept.get(sequence)) is not None:
            return kept
        coming = self._coming.get(sequence)
        if coming is None:
            coming = _Coming(asyncio.create_task(self._come(sequence)), asyncio.Event())
            self._coming[sequence] = coming
            coming.page.add_done_callback(partial(self._came, sequence))
        await coming.came.wait()
        return coming.page.result()

    async def _come(self, sequence: int) -> Page:
        if self._control.sequence <= sequence:
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._control.committed_beyond(sequence)
        return await self.after(sequence)

    def _came(self, sequence: int, page: asyncio.Task[Page]) -> None:
        if not page.cancelled():
            page.exception()  # as below
        self._coming.pop(sequence).came.set()

    async def after(self, sequence: int) -> Page:
        """What follows; nothing where nothing does yet. Raises `TemporaryError`."""
        if (kept := self._kept.get(sequence)) is not None:
            return kept
        reading = self._reading.get(sequence)
        if reading is None:
            reading = asyncio.create_task(self._read(sequence))
            self._reading[sequence] = reading
            reading.add_done_callback(partial(self._over, sequence))
        return await asyncio.shield(reading)  # others may wait for it when one of them leaves

    def _over(self, sequence: int, reading: asyncio.Task[Page]) -> None:
        del self._reading[sequence]
        if not reading.cancelled():
            reading.exception()  # it is told to whoever waits; all may have left

    async def _read(self, sequence: int) -> Page:
        page = await asyncio.to_thread(self._page, sequence)
        if len(page.written) == PAGE_ENTRIES:  # nothing is added to it any more
            self._kept[sequence] = page
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return page

    def _page(self, sequence: int) -> Page:
        entries = self._control.journal.entries(after=sequence, limit=PAGE_ENTRIES)
        written = tuple((tuple(entry.jobs), self._written(entry)) for entry in entries)
        last = entries[-1].sequence if entries else sequence
        return Page(last, written, b"".join(data for _, data in written))

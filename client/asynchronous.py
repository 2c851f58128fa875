"""`AsyncClient`: the same for code that awaits. Each question waits in a thread of its own, so that
what is asked, and how errors are told, is the one code of `Client`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from holdfast.client import models
from holdfast.client.asking import TIMEOUT_S
from holdfast.client.following import Event, Following
from holdfast.client.operations import AsyncOperations
from holdfast.client.sync import AWAY_S, Client, document, name_in
from holdfast.page.words import FINISHED

T = TypeVar("T")
KEPT = 100
"""Events that are read ahead of whoever takes them."""


class AsyncClient(AsyncOperations):
    """A driver; see `Client`. To make one reads files, and asks nobody but for a driver's URL."""

    def __init__(
        self,
        url: str | None = None,
        *,
        state: str | Path | None = None,
        run: str | None = None,
        token: str | None = None,
        ca: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._client = Client(url, state=state, run=run, token=token, ca=ca, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"Async{self._client!r}"

    async def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any:
        ask = self._client._ask
        return await asyncio.to_thread(ask, method, parts, kind, query=query, body=body, key=key)

    async def submit(
        self, job: Mapping[str, Any] | str | Path, *, key: str | None = None
    ) -> models.Done:
        """Submit a job: its document, or the file with it, in YAML or JSON."""
        return await self.submit_document(await asyncio.to_thread(document, job), key=key)

    async def update(
        self, job: Mapping[str, Any] | str | Path, *, key: str | None = None
    ) -> models.Done:
        """Have a job run another version of itself: its document as it is to be, or the file."""
        values = await asyncio.to_thread(document, job)
        return await self.update_document(name_in(values), values, key=key)

    async def jobs(
        self,
        *,
        phase: Sequence[str] | None = None,
        label: Sequence[str] | None = None,
        name: str | None = None,
    ) -> list[models.Job]:
        """All jobs that this holds for, in the order in which they were submitted."""
        return await asyncio.to_thread(self._client.jobs, phase=phase, label=label, name=name)

    async def readiness(self) -> models.Ready:
        """Whether new work is taken, and why not."""
        return await asyncio.to_thread(self._client.readiness)

    async def logs(
        self,
        job: str,
        rank: int = 0,
        *,
        stream: str = "stdout",
        attempt: int | None = None,
        tail: int | None = None,
    ) -> str:
        """What a rank wrote so far."""
        return await asyncio.to_thread(
            self._client.logs, job, rank, stream=stream, attempt=attempt, tail=tail
        )

    async def follow(
        self, job: str | None = None, *, after: int = 0, away_s: float = AWAY_S
    ) -> AsyncIterator[Event]:
        """See `Client.follow`. Whoever leaves the loop ends it."""
        following = self._client.follow(job, after=after, away_s=away_s)
        async for event in _in_thread(following, following.close):
            yield event

    async def watch(self, job: str, *, period_s: float = 1.0) -> AsyncIterator[models.Job]:
        """See `Client.watch`."""
        while True:
            found = await self.job(job)
            yield found
            if found.phase in FINISHED:
                return
            await asyncio.sleep(period_s)


async def _in_thread(source: Following, close: Callable[[], None]) -> AsyncIterator[Event]:
    """What a thread takes from `source`; at most `KEPT` wait here."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(KEPT)

    def put(item: Event | BaseException | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()

    reading = asyncio.create_task(asyncio.to_thread(_read, iter(source), put))
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        close()
        while not reading.done():  # it may wait for room
            if not queue.empty():
                queue.get_nowait()
            await asyncio.wait([reading], timeout=0.01)


def _read(events: Iterator[Event], put: Callable[[Event | BaseException | None], None]) -> None:
    try:
        for event in events:
            put(event)
    except Exception as error:  # noqa: BLE001 whoever awaits the events is told
        put(error)
    else:
        put(None)

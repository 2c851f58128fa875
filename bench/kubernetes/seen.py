"""What becomes of pods and jobs, seen from outside by a watch, with the time at which it was so.

Used by the turns: alike for pods of Holdfast's and for bare ones.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from holdfast.bench.kubernetes import fleet
from holdfast.driver.adapters.kubernetes import pods
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.mirror import key_of
from holdfast.kubeapi.reflector import Reflector, Synced

Object = dict[str, Any]


class Late(Exception):
    """What was waited for did not come; the message says what."""


class Seen:
    """The objects of a collection, and how many of them are such that `counts`."""

    def __init__(self, reflector: Reflector, counts: Callable[[Object], bool]) -> None:
        self._reflector = reflector
        self._counts = counts
        self._counted: set[str] = set()
        self._news = asyncio.Event()
        self._synced = False

    @property
    def objects(self) -> dict[str, Object]:
        return self._reflector.store

    @property
    def count(self) -> int:
        return len(self._counted)

    async def follow(self) -> None:
        """For ever."""
        async for change in self._reflector.changes():
            if isinstance(change, Synced):
                self._synced = True
            else:
                self._look(change.object)
            self._news.set()

    def _look(self, told: Object) -> None:
        uid = told["metadata"]["uid"]
        if key_of(told) in self.objects and self._counts(told):
            self._counted.add(uid)
        else:
            self._counted.discard(uid)

    async def until(self, fact: Callable[[], bool], what: str, within_s: float) -> float:
        """The monotonic second at which the fact came true. Raises `Late`."""
        try:
            async with asyncio.timeout(within_s):
                while not (self._synced and fact()):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Late(f"not within {within_s:g} s: {what} ({self.count} so far)") from None
        return time.monotonic()


@asynccontextmanager
async def following(
    client: Client, path: str, counts: Callable[[Object], bool], *, selector: str = ""
) -> AsyncIterator[Seen]:
    """A `Seen` of what a label selector selects, which follows while within."""
    seen = Seen(Reflector(client, path, labelSelector=selector), counts)
    task = asyncio.create_task(seen.follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pods_of(client: Client, selector: str) -> AbstractAsyncContextManager[Seen]:
    """Pods that a label selector selects; those that are bound count."""
    return following(client, paths.pods(fleet.NAMESPACE), pods.bound, selector=selector)

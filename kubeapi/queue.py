"""A work queue of keys: each at most once in it, never worked on twice at a time.

Used by loops that bring one object to what it should be: a change of the object adds its key; work
that failed for now comes again later, each time later, with full jitter. On the event loop's time.
Must not know what the keys are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from holdfast.kit.backoff import full_jitter
from holdfast.kit.errors import PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi.bucket import TokenBucket
from holdfast.kubeapi.errors import ApiError

AGAIN_BASE_S = 0.1
AGAIN_CAP_S = 30.0

_log = LazyLogger()


class KeyedQueue:
    """Keys in the order in which they became due; `bucket` limits how often any is taken."""

    def __init__(self, *, bucket: TokenBucket | None = None, again_cap_s: float = AGAIN_CAP_S):
        self._bucket = bucket
        self._again_cap_s = again_cap_s
        self._due: dict[str, None] = {}  # an ordered set
        self._worked: set[str] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._waits: dict[str, Iterator[float]] = {}
        self._more = asyncio.Event()
        self.worked_on = 0  # how often any key was

    def __len__(self) -> int:
        """Keys that are due and that nobody works on."""
        return len(self._due)

    def add(self, key: str, *, after_s: float = 0.0) -> None:
        """Have `key` worked on `after_s` seconds from now, or sooner if it was to be so anyway."""
        loop = asyncio.get_running_loop()
        timer = self._later.get(key)
        if after_s <= 0.0:
            self._now(key)
        elif key not in self._due and (timer is None or timer.when() > loop.time() + after_s):
            if timer is not None:
                timer.cancel()
            self._later[key] = loop.call_later(after_s, self._now, key)

    def forget(self, key: str) -> None:
        """Not again, unless it is added; whoever works on it now goes on."""
        if timer := self._later.pop(key, None):
            timer.cancel()
        self._due.pop(key, None)
        self._waits.pop(key, None)

    async def work(self, handle: Callable[[str], Awaitable[None]], *, at_once: int = 1) -> None:
        """Call `handle` for each key that is due, for ever, with `at_once` workers.

        `TemporaryError`: the key comes again. `PermanentError`: said, and not before it is added.
        Anything else is a defect and ends the work.
        """
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(at_once):
                    workers.create_task(self._worker(handle))
        finally:
            for key in list(self._later):
                self._later.pop(key).cancel()

    async def _worker(self, handle: Callable[[str], Awaitable[None]]) -> None:
        while True:
            key = await self._take()
            try:
                await handle(key)
            except TemporaryError as error:
                self._again(key, error)
            except PermanentError as error:
                self._waits.pop(key, None)
                _log.error("given up until it changes", key=key, why=str(error))
            else:
                self._waits.pop(key, None)
            finally:
                self._worked.discard(key)
                self._more.set()  # it may have been added meanwhile

    async def _take(self) -> str:
        if self._bucket is not None:
            await self._bucket.take()
        while (key := next((key for key in self._due if key not in self._worked), None)) is None:
            self._more.clear()
            await self._more.wait()
        del self._due[key]
        self._worked.add(key)
        self.worked_on += 1
        return key

    def _now(self, key: str) -> None:
        if timer := self._later.pop(key, None):
            timer.cancel()
        self._due.setdefault(key)
        self._more.set()

    def _again(self, key: str, error: TemporaryError) -> None:
        waits = self._waits.setdefault(
            key, full_jitter(base_s=AGAIN_BASE_S, cap_s=self._again_cap_s)
        )
        asked_s = (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0
        self.add(key, after_s=max(next(waits), asked_s))

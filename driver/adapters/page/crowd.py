"""One page for all who ask for the same at about the same time: a crowd costs as much as one.

Used by `asked`. A page is told anew for each person, once an entry is new, and after a second.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.kit.clock import Clock

GOOD_FOR_S = 1.0
"""Steps and speed are no entries; a reader does not see more of them."""
MOST = 64
"""Pages that are kept; each may have a few hundred KiB."""

Key = tuple[str, str, int]
"""Address with its query, whose token, and the newest entry."""


class Crowd:
    """On one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: OrderedDict[Key, tuple[float, asyncio.Task[str]]] = OrderedDict()

    async def page(self, key: Key, make: Callable[[], Awaitable[str]]) -> str:
        """What `make` makes, or made for somebody else. Raises what that raises."""
        now_s = self._clock.monotonic_s()
        begun_s, task = self._made.get(key, (-GOOD_FOR_S, None))
        if task is None or now_s - begun_s >= GOOD_FOR_S:
            task = asyncio.ensure_future(_awaited(make))
            task.add_done_callback(partial(self._over, key))
            self._made[key] = now_s, task
            while len(self._made) > MOST:
                self._made.popitem(last=False)
        return await asyncio.shield(task)  # others may wait for it when one of them leaves

    def _over(self, key: Key, task: asyncio.Task[str]) -> None:
        """What went wrong is told to whoever waits, and kept for nobody."""
        if (task.cancelled() or task.exception()) and self._made.get(key, (0, None))[1] is task:
            del self._made[key]


async def _awaited(make: Callable[[], Awaitable[str]]) -> str:
    return await make()

"""A time limit of those who wait together: while any of them gets on, nobody's time is over.

Used by `gang` and `placing`: a start of thousands of pods takes an API server and a scheduler
longer than one of two, and neither is stuck. On the event loop's time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

T = TypeVar("T")

HELD_S = 0.5
"""A look at the journal may take so long."""


class SharedDeadline:
    """`moved` is called whenever one of them got on. `may` is awaited before a time is over: where
    nobody may do anything for a while, nobody is late.
    """

    def __init__(self, may: Callable[[], Awaitable[None]] | None = None) -> None:
        self._moved_s = -inf
        self._may = may

    def moved(self) -> None:
        self._moved_s = asyncio.get_running_loop().time()

    async def wait(self, fact: Callable[[], Awaitable[T]], *, within_s: float) -> T:
        """What `fact` gives. Raises `TimeoutError` when nobody has got on for `within_s`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while True:
            try:
                async with asyncio.timeout_at(until_s):
                    return await fact()
            except TimeoutError:
                if await self._was_held():
                    self.moved()
                until_s = self._moved_s + within_s
                if until_s <= loop.time():
                    raise

    async def _was_held(self) -> bool:
        """Whether nobody might do anything until now."""
        if self._may is None:
            return False
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        await self._may()
        return loop.time() - before_s > HELD_S

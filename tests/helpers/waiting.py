"""How tests wait: for a fact, with a long deadline, which costs nothing while all is well.

Used by every test that waits for another process, thread or task. Must not wait for time.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 120.0
"""Many times what anything here takes: a driver takes 22 s to start where load is 7 a core."""
LOOK_S = 0.01


def eventually(fact: Callable[[], T], what: str = "it", within_s: float = DEADLINE_S) -> T:
    """The first true answer of `fact`. Raises `TimeoutError` with `what` when time is up."""
    deadline_s = time.monotonic() + within_s
    while not (answer := fact()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not so within {within_s} s: {what}")
        time.sleep(LOOK_S)
    return answer


async def eventually_async(
    fact: Callable[[], T], what: str = "it", within_s: float = DEADLINE_S
) -> T:
    """As `eventually`, while the tasks of this event loop go on."""
    deadline_s = time.monotonic() + within_s
    while not (answer := fact()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not so within {within_s} s: {what}")
        await asyncio.sleep(LOOK_S)
    return answer

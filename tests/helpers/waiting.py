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
GRACE_S = 16.0
"""How long a node of the tests' control planes may be silent before it is NotReady. Where several
of them share two cores a kubelet stands still for seconds, and a node that is lost for that alone
is no fault of a test's.
"""
LOOK_S = 0.01
REST = 3.0
"""Times what a look took: one that starts a program would else have a core for itself."""
LONGEST_REST_S = 0.25


def eventually(fact: Callable[[], T], what: str = "it", within_s: float = DEADLINE_S) -> T:
    """The first true answer of `fact`. Raises `TimeoutError` with `what` when time is up."""
    deadline_s = (began_s := time.monotonic()) + within_s
    while not (answer := fact()):
        if (now_s := time.monotonic()) > deadline_s:
            raise TimeoutError(f"not so within {within_s} s: {what}")
        time.sleep(min(max(LOOK_S, REST * (now_s - began_s)), LONGEST_REST_S))
        began_s = time.monotonic()
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

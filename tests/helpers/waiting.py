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
WAITED = 0.1
"""The next look comes after this share of what was waited: what comes soon is seen at once, and who
waits for seconds costs the API server, or the disk, a few looks in the place of hundreds."""
LONGEST_WAITED_S = 0.1
REST = 3.0
"""Times what a look took: one that starts a program would else have a core for itself."""
LONGEST_REST_S = 1.0


def eventually(fact: Callable[[], T], what: str = "it", within_s: float = DEADLINE_S) -> T:
    """The first true answer of `fact`. Raises `TimeoutError` with `what` when time is up."""
    began_s = look_s = time.monotonic()
    while not (answer := fact()):
        _in_time(began_s, what, within_s)
        time.sleep(_rest_s(began_s, look_s))
        look_s = time.monotonic()
    return answer


async def eventually_async(
    fact: Callable[[], T], what: str = "it", within_s: float = DEADLINE_S
) -> T:
    """As `eventually`, while the tasks of this event loop go on."""
    began_s = look_s = time.monotonic()
    while not (answer := fact()):
        _in_time(began_s, what, within_s)
        await asyncio.sleep(_rest_s(began_s, look_s))
        look_s = time.monotonic()
    return answer


def _in_time(began_s: float, what: str, within_s: float) -> None:
    if time.monotonic() > began_s + within_s:
        raise TimeoutError(f"not so within {within_s} s: {what}")


def _rest_s(began_s: float, look_s: float) -> float:
    """Until the next look, after one that was begun then."""
    now_s = time.monotonic()
    waited = min(WAITED * (now_s - began_s), LONGEST_WAITED_S)
    dear = min(REST * (now_s - look_s), LONGEST_REST_S)
    return max(LOOK_S, waited, dear)

"""Make a call again while what hinders it may pass.

Used by all that write to the API server on the core's behalf; `client` itself tries once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from holdfast.driver.ports import TemporaryError, UnfitError
from holdfast.kit.backoff import full_jitter

T = TypeVar("T")

RETRY_FOR_S = 20.0
"""Longer than an API server needs to start anew; then the core is told, which tries again later."""


async def retry(call: Callable[[], Awaitable[T]], *, within_s: float = RETRY_FOR_S) -> T:
    """What the call gives. Raises the last `TemporaryError`; at once what is permanent, or what the
    core is to hear first (`UnfitError`).
    """
    waits = full_jitter(base_s=0.1, cap_s=2.0)
    loop = asyncio.get_running_loop()
    deadline_s = inf
    while True:
        try:
            return await call()
        except UnfitError:
            raise
        except TemporaryError:
            deadline_s = min(deadline_s, loop.time() + within_s)  # from the first failure on
            if loop.time() >= deadline_s:
                raise
        await asyncio.sleep(next(waits))

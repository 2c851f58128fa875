"""Run a few coroutines side by side until the first of them ends.

Used where work under way must end with a connection, and where whoever cancels it must be obeyed.
An `asyncio.TaskGroup` does not do for that: before Python 3.13 a cancellation from outside that
meets a member's error is forgotten for that error (CPython issue 116720).
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_first(*works: Coroutine[Any, Any, object]) -> None:
    """Run `works` until one ends, and cancel the others; raises what the first raised.

    A cancellation from outside ends all of them and is always passed on.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()

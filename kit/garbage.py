"""How a process that keeps many objects has Python's garbage collector look at them.

Used by the driver's process, and by the benchmark that measures its parts in another one.
"""

import contextlib
import gc
from collections.abc import Iterator

AFTER = 10_000
"""Containers made, less those freed: Python's 700 would look at each pod that is decoded."""


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """What is made within stays: Python's garbage collector would look at it again and again, for
    half of the time that a list of 3,500 objects takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(AFTER)
        gc.enable()

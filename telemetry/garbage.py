"""For how long Python's garbage collector has gone through all objects of this rank.

In a word of the ring, by nanoseconds, from `count` until `forget`. Collections of new objects alone
are short and frequent, and are not counted. Called by `hooks`; must not outlive the ring.
"""

import gc
import time
from collections.abc import Mapping

from holdfast.telemetry import schema
from holdfast.telemetry.ring import RingWriter

OLDEST = 2
"""Generation of a collection that goes through all objects."""


class _Collections:
    """Called by the collector before and after each."""

    def __init__(self, ring: RingWriter) -> None:
        self._ring = ring
        self._began_ns = self._took_ns = 0

    def __call__(self, phase: str, about: Mapping[str, int]) -> None:
        if about["generation"] < OLDEST:
            return
        if phase == "start":
            self._began_ns = time.monotonic_ns()
        elif self._began_ns:
            self._took_ns += time.monotonic_ns() - self._began_ns
            self._ring.word(schema.GARBAGE, self._took_ns)


def count(ring: RingWriter) -> None:
    """From now on, in this ring."""
    forget()
    gc.callbacks.append(_Collections(ring))


def forget() -> None:
    """The ring is no longer of this process."""
    gc.callbacks[:] = [each for each in gc.callbacks if not isinstance(each, _Collections)]

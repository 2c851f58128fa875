"""Fault 23: the store takes nothing and gives nothing for a while."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab

BEFORE_S, AFTER_S = 2.0, 8.0
"""Longer than it takes to save five steps, and than a recovery takes."""


def down_and(other: Injector) -> Injector:
    """The store is away, and while it is another fault is done."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        with _away(lab, job):
            time.sleep(BEFORE_S)
            done = other(lab, job, rng)
            time.sleep(AFTER_S)
        return replace(done, said=f"the store is away, meanwhile {done.said}")

    return do


@contextmanager
def _away(lab: Lab, job: str) -> Iterator[None]:
    """A file is where its folder should be: nothing can be written or read there, nor made."""
    folder = lab.store(job)
    aside = folder.rename(folder.with_suffix(".aside"))
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)

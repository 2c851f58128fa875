"""Forked children that are not ours yet: we adopt them when the process between has ended.

Used by `adapters.launcher`. A sweep, which leaves out the launcher and all below it, cannot see
them.
"""

import os
from typing import NamedTuple

from holdfast.kit import procstat


class Place(NamedTuple):
    """Below whom a process stands. Its start is in it, as a pid is used again and again."""

    parent: int
    started_ticks: int


class Arrivals:
    """Who was forked and is still where it was then."""

    def __init__(self) -> None:
        self._coming: dict[int, Place] = {}

    def expect(self, pid: int) -> None:
        """Remember `pid`, of which we were just told, unless it is ours already or gone."""
        place = _place(pid)
        if place is not None and place.parent != os.getpid():
            self._coming[pid] = place

    def coming(self) -> set[int]:
        """Those that have neither arrived nor ended. Another process of the same pid is neither."""
        self._coming = {pid: place for pid, place in self._coming.items() if _place(pid) == place}
        return set(self._coming)

    def forget(self) -> None:
        """Expect nobody any more."""
        self._coming.clear()


def _place(pid: int) -> Place | None:
    """Of a living process; None for one that is gone, or of which nothing can act any more."""
    seen = procstat.stat(pid)
    return Place(seen.parent, seen.started_ticks) if seen is not None and seen.acts else None

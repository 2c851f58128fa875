"""Whether a rank asks somebody again and again, and is answered: an upload in many small requests.

Looked at by `activity`. Its main thread wakes often, uses little CPU, and bytes of the process's
connections move: few of them are enough then. Where the main thread is blocked in one call, they
are those of other threads, which say nothing of it.
"""

from collections import deque
from typing import NamedTuple

from holdfast.kit import procstat

WAKES_PER_S = 1.0
"""So often at least. One that looks every five seconds whether a data loader lives is blocked."""
OVER_S = 3.0
"""Counted over so long: one moment tells nothing."""
MOST_CPU_SHARE = 0.5
"""CPU seconds a second: who uses more spins, and wakes whenever another thread wants a turn."""


class Look(NamedTuple):
    """Of the main thread so far."""

    at_s: float
    wakes: int
    cpu_s: float


class Asks:
    """Of one process, from outside."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: deque[Look] = deque()

    def rest(self) -> None:
        """The rank makes progress: the next look is a first one."""
        self._looks.clear()

    def look(self, now: float) -> bool:
        """Whether the main thread has woken often in the last seconds, and used little CPU."""
        seen = procstat.main_thread(self._pid)
        if seen is None:
            self.rest()
            return False
        self._looks.append(Look(now, *seen))
        while len(self._looks) > 1 and self._looks[1].at_s <= now - OVER_S:
            self._looks.popleft()
        return _wakes(self._looks[0], self._looks[-1])


def _wakes(first: Look, last: Look) -> bool:
    took_s = last.at_s - first.at_s
    if took_s < OVER_S:
        return False
    often = last.wakes - first.wakes >= WAKES_PER_S * took_s
    return often and last.cpu_s - first.cpu_s < MOST_CPU_SHARE * took_s

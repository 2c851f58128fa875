"""Where time comes from, and how long this process stood still: stopped, swapped out, or behind a
call that took its time. Decisions take `now`, loops a `Clock`; only this file asks the host.

`Looks` are used by the driver's loop, which tells the core, and `RunningClock` by whoever feeds the
detectors, whose time stands as long as nobody listened. Must not be asked too seldom: two looks far
apart are a standstill.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time, so that a loop can run on virtual time in tests."""

    def monotonic_s(self) -> float:
        """Seconds that never go back; orders events of one host, and nothing between hosts."""
        ...

    def wall(self) -> datetime:
        """The time of day in UTC, for people to read. Never compared."""
        ...


class SystemClock:
    """The host's own clocks."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)


class WorldClock(SystemClock):
    """As it passes for the world: also while this machine is suspended, where the kernel tells
    (CLOCK_BOOTTIME of Linux). Elsewhere that time does not pass."""

    def monotonic_s(self) -> float:
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boottime is None else time.clock_gettime(boottime)


STALL_S = 1.0
"""Two looks that are so far apart are a standstill. Shorter ones are left to the order in which
things come: a tick waits for all that was queued, and no wait at whose end somebody is blamed for
silence is shorter than ten times this."""

LOOK_S = 0.25
"""Between two looks while all is well: four times as often as would be one standstill."""


class Looks:
    """When somebody looked last. Times are in seconds of one clock."""

    def __init__(self, at_s: float) -> None:
        self._last_s = at_s

    def look(self, at_s: float) -> float:
        """How long nobody looked, where that is a standstill, else 0."""
        stood_s, self._last_s = at_s - self._last_s, at_s
        return stood_s if stood_s > STALL_S else 0.0


class RunningClock:
    """Seconds that pass only while this process runs. Whoever asks looks."""

    def __init__(self, now: Callable[[], float], stood: Callable[[float], None]) -> None:
        """`stood` is called with the time at which it goes on, before anybody else is told it."""
        self._now = now
        self._stood = stood
        self._looks = Looks(now())
        self._lost_s = 0.0

    def now(self) -> float:
        at_s = self._now()
        lost_s = self._looks.look(at_s)
        self._lost_s += lost_s
        if lost_s:
            self._stood(at_s - self._lost_s)
        return at_s - self._lost_s

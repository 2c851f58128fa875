"""How long this process stood still: stopped, swapped out, or behind a call that took its time.

Used by the loop, which tells the core, and by whoever feeds the detectors, whose time stands as
long as nobody listened. Must not be asked too seldom: two looks far apart are a standstill.
"""

from collections.abc import Callable

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

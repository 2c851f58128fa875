"""How far the driver's clock is from this machine's, from the heartbeats' four timestamps. Pure.

With t1 a heartbeat sent, t2 it came, t3 it was answered, t4 the answer came, the driver's clock is
((t2 - t1) + (t3 - t4)) / 2 ahead, and no further from that than half of the round trip (NTP's
formula, RFC 5905, section 8).
"""

from collections import deque
from typing import NamedTuple

WINDOW = 64
"""Answers of which the best counts: half a minute at the usual period."""
ROUNDING_S = 1e-6
"""Of differences between times of a machine that has run for years, in floating point."""
DRIFT = 100e-6
"""What two clocks may drift apart, in seconds a second: five times what a common quartz does."""


class Offset(NamedTuple):
    """Add `ahead_s` to this machine's clock and it is the driver's, `error_s` more or less."""

    ahead_s: float
    error_s: float


class Clocks:
    """This machine's beside the driver's."""

    def __init__(self) -> None:
        self._heard: deque[tuple[float, Offset]] = deque(maxlen=WINDOW)

    def renew(self) -> None:
        """Another connection: perhaps another driver, of another machine."""
        self._heard.clear()

    def heard(self, sent_s: float, came_s: float, answered_s: float, now_s: float) -> None:
        """A heartbeat was answered. A driver of an earlier version tells no times: all are 0."""
        trip_s = (now_s - sent_s) - (answered_s - came_s)
        if not sent_s or not came_s or trip_s < -ROUNDING_S or answered_s < came_s:
            return  # a clock that jumped tells nothing
        ahead_s = ((came_s - sent_s) + (answered_s - now_s)) / 2
        self._heard.append((now_s, Offset(ahead_s, max(0.0, trip_s) / 2)))

    def offset(self, now_s: float) -> Offset | None:
        """The surest there is; None before the first answer."""
        aged = (Offset(a, e + DRIFT * max(0.0, now_s - at)) for at, (a, e) in self._heard)
        return min(aged, key=lambda each: each.error_s, default=None)

"""Where time comes from. Decisions take `now`, loops a `Clock`; only this file asks the host."""

import time
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

"""A driver whose wall clock is as wrong as a file in its state folder says, else as any driver.

Started in the place of `holdfast.driver.main` where a scenario steps the clock: time namespaces do
not move the real-time clock, so it is stepped where the driver gets it, at its clock's port.
"""

import sys
from datetime import datetime, timedelta
from pathlib import Path

from holdfast.driver import process
from holdfast.kit.clock import WorldClock
from holdfast.kit.files import write_atomic


class SteppedClock(WorldClock):
    """The host's clocks, the wall clock with an offset that may change at any time."""

    def __init__(self, state: Path) -> None:
        self._offset = _offset_of(state)

    def wall(self) -> datetime:
        try:
            return super().wall() + timedelta(seconds=float(self._offset.read_text()))
        except FileNotFoundError:
            return super().wall()


def step(state: Path, offset_s: float) -> None:
    """Have the wall clock of the driver with this state be wrong by so much."""
    write_atomic(_offset_of(state), str(offset_s).encode())


def _offset_of(state: Path) -> Path:
    return state / "clock-offset-s"


if __name__ == "__main__":
    words = sys.argv[1:]
    folder = Path(words[words.index("--state") + 1])
    setattr(process, "WorldClock", lambda: SteppedClock(folder))  # noqa: B010 - as no driver would
    sys.exit(process.run(words))

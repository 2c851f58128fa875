"""What the host is short of: pressure stall information, memory, disk, stolen CPU time.

Called by the daemon's loop once a heartbeat. Figures that this kernel does not give stay at zero.
"""

import os
from math import isfinite
from pathlib import Path

from holdfast.daemon.samplers.readings import Readings, counter
from holdfast.protocol.messages import Pressure


class HostPressure:
    """Reads /proc; `scratch` is the folder whose disk is looked at."""

    def __init__(self, scratch: Path, proc: Path = Path("/proc")) -> None:
        self._scratch, self._proc = scratch, proc
        self._cpu: tuple[int, int] | None = None
        self._files = Readings("pressure")

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._files.unreadable_now

    def sample(self) -> Pressure:
        return Pressure(
            cpu=self._stalled("cpu"),
            memory=self._stalled("memory"),
            io=self._stalled("io"),
            scratch_used=self._disk_used(),
            memory_used=self._memory_used(),
            steal=self._steal(),
        )

    def _disk_used(self) -> float:
        try:
            disk = os.statvfs(self._scratch)
        except OSError as error:
            self._files.unreadable(self._scratch, error.strerror or type(error).__name__)
            return 0.0
        self._files.readable(self._scratch)
        return 1 - disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0

    def _stalled(self, resource: str) -> float:
        return self._files.parsed(self._proc / "pressure" / resource, _average) or 0.0

    def _memory_used(self) -> float:
        return self._files.parsed(self._proc / "meminfo", _used) or 0.0

    def _steal(self) -> float:
        """Share of CPU time stolen since the call before."""
        now = self._files.parsed(self._proc / "stat", _stolen)
        if now is None:
            return 0.0
        before, self._cpu = self._cpu, now
        if before is None or now[0] <= before[0]:
            return 0.0
        return _share((now[1] - before[1]) / (now[0] - before[0]))


def _average(text: str) -> float:
    """Share of the last ten seconds that some task waited (Documentation/accounting/psi)."""
    words = dict(word.partition("=")[::2] for word in text.partition("\n")[0].split())
    return _share(float(words["avg10"]) / 100)


def _used(text: str) -> float:
    """Share of the memory, from the lines of meminfo in proc(5)."""
    sizes = {
        name: rest.split() for name, _, rest in (line.partition(":") for line in text.split("\n"))
    }
    total, free = (counter(sizes[name][0]) for name in ("MemTotal", "MemAvailable"))
    return _share(1 - free / total) if total > 0 else 0.0


def _stolen(text: str) -> tuple[int, int]:
    """All ticks, and those stolen: fields of `cpu` in proc(5)."""
    fields = [counter(field) for field in text.partition("\n")[0].split()[1:9]]
    return sum(fields), fields[7]


def _share(value: float) -> float:
    """Between 0 and 1. Raises `ValueError` for what is no number."""
    if not isfinite(value):
        raise ValueError("no number")
    return min(max(value, 0.0), 1.0)

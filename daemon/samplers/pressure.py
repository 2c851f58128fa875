"""What the host is short of: pressure stall information, memory, disk, stolen CPU time.

Called by the daemon's loop once a heartbeat. Figures that this kernel does not give stay at zero.
"""

import os
from pathlib import Path

from holdfast.protocol.messages import Pressure


class HostPressure:
    """Reads /proc; `scratch` is the folder whose disk is looked at."""

    def __init__(self, scratch: Path, proc: Path = Path("/proc")) -> None:
        self._scratch, self._proc = scratch, proc
        self._cpu: tuple[int, int] | None = None

    def sample(self) -> Pressure:
        return Pressure(
            cpu=self._stalled("cpu"),
            memory=self._stalled("memory"),
            io=self._stalled("io"),
            scratch_used=_disk_used(self._scratch),
            memory_used=self._memory_used(),
            steal=self._steal(),
        )

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError:
            return ""

    def _stalled(self, resource: str) -> float:
        """Share of the last ten seconds that some task waited (Documentation/accounting/psi)."""
        for word in self._text(f"pressure/{resource}").partition("\n")[0].split():
            if word.startswith("avg10="):
                return float(word.removeprefix("avg10=")) / 100
        return 0.0

    def _memory_used(self) -> float:
        sizes = dict(line.split(":", 1) for line in self._text("meminfo").splitlines())
        total, free = (sizes.get(name, "0 kB").split()[0] for name in ("MemTotal", "MemAvailable"))
        return 1 - int(free) / int(total) if int(total) else 0.0

    def _steal(self) -> float:
        """Share of CPU time stolen since the call before; fields of `cpu` in proc(5)."""
        fields = [int(field) for field in self._text("stat").partition("\n")[0].split()[1:9]]
        if len(fields) < 8:
            return 0.0
        before, self._cpu = self._cpu, (sum(fields), fields[7])
        if before is None or self._cpu[0] == before[0]:
            return 0.0
        return (self._cpu[1] - before[1]) / (self._cpu[0] - before[0])


def _disk_used(folder: Path) -> float:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0.0
    return 1 - disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0

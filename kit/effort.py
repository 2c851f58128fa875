"""Whether a process gets on with anything, as /proc shows it from outside: CPU, and bytes read.

Used by the executor on its launcher. Must not signal or trace anything.
"""

from typing import NamedTuple

from holdfast.kit import procstat

CPU_SHARE = 0.05
"""CPU seconds a second from which on it is at work."""
BYTES_PER_S = 16_384
"""The same of bytes: the slowest disk is faster."""


class Effort(NamedTuple):
    """What a process has spent since it began. `read_bytes`: by calls, or from a disk, as the pages
    of a library that is loaded are; what both are of counts twice.
    """

    cpu_s: float
    read_bytes: int


def effort(pid: int) -> Effort:
    """Nothing where the process is gone, or may not be looked at."""
    stat = procstat.stat(pid)
    return Effort(stat.cpu_s if stat else 0.0, _read(pid))


def _read(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file)
    except procstat.GONE:
        return 0
    return int(fields["rchar"]) + int(fields["read_bytes"])


class Standstill:
    """For how long it has got on with nothing. Pure: looks and times are given."""

    def __init__(self, seen: Effort, now_s: float) -> None:
        self._seen, self._looked_s, self._since_s = seen, now_s, now_s

    def look(self, seen: Effort, now_s: float) -> float:
        """Seconds, by the effort since the look before."""
        took_s = now_s - self._looked_s
        cpu_s, read = (after - before for after, before in zip(seen, self._seen, strict=True))
        if cpu_s >= CPU_SHARE * took_s > 0.0 or read >= BYTES_PER_S * took_s > 0.0:
            self._since_s = now_s
        self._seen, self._looked_s = seen, now_s
        return now_s - self._since_s

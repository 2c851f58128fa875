"""Whether a process gets on with anything, as /proc shows it from outside: CPU, and bytes moved.

Used by the executor on its launcher. Must not signal or trace anything.
"""

from typing import NamedTuple

from holdfast.kit import procstat

CPU_SHARE = 0.05
"""CPU seconds a second from which on it is at work."""
BYTES_PER_S = 16_384
"""The same of bytes: the slowest disk is faster."""


class Effort(NamedTuple):
    """What a process and those below it, e.g. a compiler, have spent since they began.
    `moved_bytes`: by calls to read and write, of which `recv` is none, or from a disk, as the pages
    of a library that is loaded are; what both are of counts twice.
    """

    cpu_s: float
    moved_bytes: int


def effort(pid: int) -> Effort:
    """Nothing where the process is gone, or may not be looked at. Less than before where a child
    has ended: it is no longer looked at.
    """
    whole = [pid, *procstat.descendants(pid)]
    stats = [stat for each in whole if (stat := procstat.stat(each)) is not None]
    return Effort(sum(stat.cpu_s for stat in stats), sum(map(_moved, whole)))


def _moved(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file)
    except procstat.GONE:
        return 0
    return sum(int(fields[each]) for each in ("rchar", "wchar", "read_bytes"))


class Standstill:
    """For how long it has got on with nothing. Pure: looks and times are given."""

    def __init__(self, seen: Effort, now_s: float) -> None:
        self._seen, self._looked_s, self._since_s = seen, now_s, now_s

    def look(self, seen: Effort, now_s: float) -> float:
        """Seconds, by the effort since the look before."""
        took_s = now_s - self._looked_s
        cpu_s, moved = (after - before for after, before in zip(seen, self._seen, strict=True))
        if cpu_s >= CPU_SHARE * took_s > 0.0 or moved >= BYTES_PER_S * took_s > 0.0:
            self._since_s = now_s
        self._seen, self._looked_s = seen, now_s
        return now_s - self._since_s

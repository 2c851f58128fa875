"""For how long a process got no processor though it could run: others had it, or a limit is used.

Looked at with each heartbeat. Where the kernel does not tell it is 0: nothing is held up. Must not
conclude.
"""

from collections.abc import Iterator
from pathlib import Path

from holdfast.daemon.samplers import processes
from holdfast.daemon.samplers.readings import counter, read_bytes

CGROUPS = Path("/sys/fs/cgroup")
MOST_BYTES = 4_096
_IN_SECONDS = {"throttled_usec": 1e6, "throttled_time": 1e9}
"""Of `cpu.stat`, by version of cgroups: microseconds in the second, nanoseconds in the first."""


class Processors:
    """Those that one process wants."""

    def __init__(self, pid: int, *, cgroups: Path = CGROUPS) -> None:
        self._schedule = processes.PROC / str(pid) / "schedstat"
        self._limits = tuple(_limits(processes.PROC / str(pid) / "cgroup", cgroups))

    def withheld_s(self) -> tuple[float, float]:
        """So far, from its main thread by others, and by limits of its cgroup and those above."""
        return _delayed_s(self._schedule), sum(map(_throttled_s, self._limits))


def _limits(names: Path, cgroups: Path) -> Iterator[Path]:
    """`cpu.stat` of each cgroup that may limit it, cgroups(7): its own and those above."""
    for line in _text(names).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or "cpu" in controllers.split(","):
            root = cgroups / controllers
            folder = root / path.lstrip("/")
            levels = (each for each in (folder, *folder.parents) if each.is_relative_to(root))
            yield from (each / "cpu.stat" for each in levels if (each / "cpu.stat").is_file())


def _delayed_s(schedule: Path) -> float:
    """The second number of schedstat, Documentation/scheduler/sched-stats."""
    words = _text(schedule).split()
    try:
        return counter(words[1]) / 1e9
    except (ValueError, LookupError):
        return 0.0


def _throttled_s(limit: Path) -> float:
    words = _words(limit)
    try:
        told = [counter(words[name]) / unit for name, unit in _IN_SECONDS.items() if name in words]
    except ValueError:
        return 0.0
    return sum(told)


def _words(file: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in _text(file).splitlines() if " " in line)


def _text(file: Path) -> str:
    try:
        return read_bytes(file, MOST_BYTES).decode("ascii", errors="replace")
    except OSError:
        return ""

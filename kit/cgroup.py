"""The memory cgroup of this process: its limit, its use, and how often the kernel killed in it.

Read while ranks run, for each that dies of SIGKILL, and before slots are made early. In a container
of cgroup version 1 the path that /proc/self/cgroup gives is the host's, of which only the end is
mounted: that is the mount's root.
"""

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import NamedTuple

CGROUPS, MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")
HOST = Path("/proc/meminfo")
LONGEST_NUMBER = 20
"""Digits of 64 bits."""
RECENT_S = 10.0
"""How long after a kill the end of its process may be seen, on a machine short of memory."""
UNLIMITED_BYTES = 1 << 60
"""Version 1 says "no limit" as the largest multiple of a page, version 2 as `max`."""


class Memory(NamedTuple):
    """Of the cgroup of this process. 0 where it has no limit, or cannot be seen."""

    limit_bytes: int = 0
    kills: int = 0
    used_bytes: int = 0  # without files' pages that were not used for long


class _Kind(NamedTuple):
    """How a version of cgroups is mounted, and what it calls its files."""

    mounted_as: str
    controller: str
    counts: str
    limit: str
    used: str
    idle: str


KINDS = (
    _Kind("cgroup2", "", "memory.events", "memory.max", "memory.current", "inactive_file"),
    _Kind(
        "cgroup",
        "memory",
        "memory.oom_control",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def memory(cgroups: Path = CGROUPS, mounts: Path = MOUNTS) -> Memory:
    """As it is now."""
    for kind in KINDS:
        for folder in _folders(kind, cgroups, mounts):
            counts = _words(folder / kind.counts)
            if "oom_kill" in counts[:-1]:
                limit = _number((_words(folder / kind.limit) or [""])[0])
                kills = _number(_after(counts, "oom_kill"))
                return Memory(limit if limit < UNLIMITED_BYTES else 0, kills, _used(kind, folder))
    return Memory()


class Kills:
    """When the kernel last killed for want of memory: the counts do not say whom. To be looked at
    more often than every RECENT_S."""

    def __init__(
        self, read: Callable[[], Memory] = memory, clock: Callable[[], float] = monotonic
    ) -> None:
        self._read, self._clock = read, clock
        self._count = read().kills
        self._at: float | None = None

    def look(self) -> Memory | None:
        """The memory as it is, where something was killed for it just now."""
        now, seen = self._clock(), self._read()
        if seen.kills > self._count:
            self._at = now
        self._count = seen.kills
        return seen if self._at is not None and now - self._at <= RECENT_S else None


def free_bytes(cgroups: Path = CGROUPS, mounts: Path = MOUNTS, host: Path = HOST) -> int | None:
    """What processes of this cgroup may still take before the kernel kills one; None: unknown."""
    free = 1024 * _number(_after(_words(host), "MemAvailable:"))
    if not free:
        return None
    own = memory(cgroups, mounts)
    return min(free, max(0, own.limit_bytes - own.used_bytes)) if own.limit_bytes else free


def _used(kind: _Kind, folder: Path) -> int:
    used = _number((_words(folder / kind.used) or [""])[0])
    return max(0, used - _number(_after(_words(folder / "memory.stat"), kind.idle)))


def _folders(kind: _Kind, cgroups: Path, mounts: Path) -> list[Path]:
    """Where this process's cgroup may be mounted, likeliest first."""
    found: list[Path] = []
    for line in _lines(cgroups):
        _, controllers, place = line.split(":", 2)
        if kind.controller in controllers.split(","):
            for root, at in _mounts(kind, mounts):
                inside = PurePosixPath(place).is_relative_to(root)
                found += [at / PurePosixPath(place).relative_to(root)] if inside else []
                found.append(at)
    return found


def _mounts(kind: _Kind, mounts: Path) -> list[tuple[str, Path]]:
    """What part of the hierarchy is mounted, and where."""
    found = []
    for line in _lines(mounts):
        fields, _, rest = line.partition(" - ")
        mounted_as, _, options = rest.split(" ", 2)
        if mounted_as == kind.mounted_as and (
            not kind.controller or kind.controller in options.split(",")
        ):
            root, at = fields.split(" ")[3:5]
            found.append((root, Path(at)))
    return found


def _after(words: list[str], name: str) -> str:
    """The word behind this one, in a file of names and figures."""
    return words[words.index(name) + 1] if name in words[:-1] else ""


def _number(word: str) -> int:
    """0 for what is none, and for what no counter can be."""
    return int(word) if word.isascii() and word.isdigit() and len(word) <= LONGEST_NUMBER else 0


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()

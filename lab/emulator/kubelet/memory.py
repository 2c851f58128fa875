"""Memory limits of containers by cgroup, v1 or v2, where one may be made.

Used by the runtime. Without one there is no limit, and `MemoryGroups.missing` says why: the Node
object tells it.
"""

import contextlib
import os
from pathlib import Path

from holdfast.lab.emulator import cgroups

LIMIT_FILES = {"v1": "memory.limit_in_bytes", "v2": "memory.max"}
COUNT_FILES = {"v1": "memory.oom_control", "v2": "memory.events"}


class MemoryGroups:
    """A cgroup for each container of a node that has a limit."""

    def __init__(self, run_id: str, node: str) -> None:
        self._parent, self._version, self.missing = cgroups.memory_parent(run_id)
        self._node = node

    def make(self, uid: str, container: str, limit_bytes: int) -> Path | None:
        """The group that a container with this limit has to join; None for none."""
        if self._parent is None or not limit_bytes:
            return None
        group = self._path(uid, container)
        group.mkdir(exist_ok=True)
        (group / LIMIT_FILES[self._version]).write_text(str(limit_bytes))
        return group

    def remove(self, uid: str, container: str) -> bool:
        """Remove the group of a container that ended; whether the kernel killed in it."""
        if self._parent is None:
            return False
        group = self._path(uid, container)
        killed = 0
        with contextlib.suppress(OSError, ValueError):
            lines = (group / COUNT_FILES[self._version]).read_text().splitlines()
            counts = dict(line.split() for line in lines)
            killed = int(counts.get("oom_kill", 0))
        with contextlib.suppress(OSError):  # never made, or a process is dying in it still
            os.rmdir(group)
        return killed > 0

    def _path(self, uid: str, container: str) -> Path:
        return (self._parent or Path()) / f"{self._node}.{uid}.{container}"

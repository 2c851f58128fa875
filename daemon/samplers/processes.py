"""Processes as seen from outside: their files, the node's executor. From /proc alone.

Used by the progress sampler and the heartbeat. Must not signal or trace anything.
"""

from pathlib import Path

from holdfast.kit import procstat

PROC = Path("/proc")
EXECUTOR = b"holdfast.executor.main"


def maps(pid: int, name: str) -> bool:
    """Whether the process has a file called `name` mapped: is this pid still that process?"""
    try:
        return name in (PROC / str(pid) / "maps").read_text(errors="replace")
    except procstat.GONE:
        return False


class Sibling:
    """The node's executor: another child of the process that started this daemon."""

    def __init__(self, parent: int, command: bytes = EXECUTOR) -> None:
        self._parent = parent
        self._command = command
        self._known: tuple[int, int] | None = None
        self._seen = False

    def alive(self) -> bool:
        """False once it has been seen and is gone. Where it cannot be seen nothing is claimed."""
        if self._known is None:
            self._known = self._find()
        if self._known is not None:
            self._seen = True
            pid, started_ticks = self._known
            now = procstat.stat(pid)
            if now is None or now.started_ticks != started_ticks or not now.acts:
                self._known = None
        return self._known is not None or not self._seen

    def _find(self) -> tuple[int, int] | None:
        for pid in procstat.children(self._parent):
            found = procstat.stat(pid)
            if found is not None and self._command in _command(pid):
                return pid, found.started_ticks
        return None


def _command(pid: int) -> list[bytes]:
    """Its words; none where it has ended, nor in the middle of an exec: the next look has them."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except procstat.GONE:
        return []

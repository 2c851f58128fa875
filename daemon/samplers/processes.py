"""Processes as seen from outside: state, CPU, children. From /proc alone.

Used by the progress sampler and the heartbeat. Must not signal or trace anything.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
EXECUTOR = b"holdfast.executor.main"


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """What /proc/PID/stat says, see proc(5). `cpu_s` holds that of children already reaped.

    `state` is that of another thread where the first one has ended: Linux calls such a process a
    zombie, and it is none to those who wait for it.
    """

    state: str
    parent: int
    started_ticks: int
    cpu_s: float


def _fields(process: Path) -> list[str]:
    """From the third on, of a process or a thread."""
    text = (process / "stat").read_text(errors="replace")
    # The name stands in brackets and may hold anything, brackets among it.
    return text[text.rindex(")") + 2 :].split()


def stat(pid: int) -> Stat | None:
    """The process, or None where there is none (any more)."""
    try:
        fields = _fields(PROC / str(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Stat(
        state=_state_of_others(pid) if fields[0] == "Z" and int(fields[17]) > 1 else fields[0],
        parent=int(fields[1]),
        started_ticks=int(fields[19]),
        cpu_s=sum(map(int, fields[11:15])) / TICKS_PER_S,
    )


def _state_of_others(pid: int) -> str:
    """Of the first thread that has not ended; Z where all have meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in sorted((PROC / str(pid) / "task").iterdir()):
            with suppress(FileNotFoundError, ProcessLookupError):
                if (state := _fields(thread)[0]) not in "ZX":
                    return state
    return "Z"


def children(pid: int) -> list[int]:
    """Children of all threads of `pid`; those found so far where it ends meanwhile."""
    found: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            found += _children_of_thread(task)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return found
    return found


def _children_of_thread(task: Path) -> list[int]:
    try:
        return [int(pid) for pid in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def descendants(pid: int) -> list[int]:
    """Children of `pid`, theirs, and so on."""
    found = children(pid)
    for child in found:
        found += children(child)  # the list grows as it is walked
    return found


def maps(pid: int, name: str) -> bool:
    """Whether the process has a file called `name` mapped: is this pid still that process?"""
    try:
        return name in (PROC / str(pid) / "maps").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
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
            now = stat(pid)
            if now is None or now.started_ticks != started_ticks or now.state in "ZX":
                self._known = None
        return self._known is not None or not self._seen

    def _find(self) -> tuple[int, int] | None:
        for pid in children(self._parent):
            found = stat(pid)
            if found is not None and self._command in _command(pid):
                return pid, found.started_ticks
        return None


def _command(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []

"""A process as /proc/PID/stat shows it, proc(5). Nothing else of ours reads that file.

Used by executor, daemon, keeper and lab. Must not signal or trace anything.
"""

import os
from contextlib import suppress
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What /proc answers for a process that has ended, or that is hidden from us (hidepid)."""


class Stat(NamedTuple):
    """One look at a process. Its pid and `started_ticks`, since boot, name it for ever.

    `state` is a letter of proc(5), of the first thread that has not ended: Linux says Z of a
    process whose first thread has ended, and the others go on. `cpu_s` holds that of children
    already reaped. `resident_bytes`: of its memory, shared pages with it.
    """

    state: str
    parent: int
    started_ticks: int
    cpu_s: float
    resident_bytes: int

    @property
    def acts(self) -> bool:
        """False where no thread is left: nobody acts any more, and it waits to be reaped."""
        return self.state not in "ZX"


def stat(pid: int) -> Stat | None:
    """The process, or None where there is none to see. Raises `OSError` where /proc fails us."""
    try:
        fields = _fields(f"/proc/{pid}")
    except GONE:
        return None
    others_left = fields[0] == b"Z" and int(fields[17]) > 1
    return Stat(
        state=_state_of_others(pid) if others_left else _state(fields),
        parent=int(fields[1]),
        started_ticks=int(fields[19]),
        cpu_s=sum(map(int, fields[11:15])) / TICKS_PER_S,
        resident_bytes=int(fields[21]) * PAGE_BYTES,
    )


def main_thread(pid: int) -> tuple[int, float] | None:
    """Of the first thread: how often it has gone to sleep and woken, and its CPU time in seconds;
    None where there is none to see."""
    at = f"/proc/{pid}/task/{pid}"
    try:
        with open(f"{at}/status", "rb") as file:
            wakes = int(file.read().rpartition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
        return wakes, sum(map(int, _fields(at)[11:13])) / TICKS_PER_S
    except (*GONE, IndexError, ValueError):  # a kernel may not count them
        return None


def kept_waiting_s(pid: int) -> float:
    """For how long its threads wanted a core and had none, all together, since they began: the
    second number of schedstat, Documentation/scheduler/sched-stats. 0 where nobody can tell.
    """
    total_ns = 0
    with suppress(*GONE, IndexError, ValueError):  # a kernel may not count them
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                total_ns += int(file.read().split()[1])
    return total_ns / 1e9


def children(pid: int) -> list[int]:
    """Children of all threads of `pid`; those found so far where it ends meanwhile."""
    found: list[int] = []
    with suppress(*GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += _children_of_thread(f"/proc/{pid}/task/{thread}")
    return found


def _children_of_thread(at: str) -> list[int]:
    try:
        with open(f"{at}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except GONE:
        return []


def descendants(pid: int) -> list[int]:
    """Children of `pid`, theirs, and so on."""
    found = children(pid)
    for child in found:
        found += children(child)  # the list grows as it is walked
    return found


def _fields(at: str) -> list[bytes]:
    """From the third on, of a process or a thread. The name before may hold any character."""
    with open(f"{at}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _state(fields: list[bytes]) -> str:
    return fields[0].decode("ascii")


def _state_of_others(pid: int) -> str:
    """Of the first thread that has not ended; Z where all have meanwhile."""
    with suppress(*GONE):
        for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            with suppress(*GONE):
                if (state := _state(_fields(f"/proc/{pid}/task/{thread}"))) not in "ZX":
                    return state
    return "Z"

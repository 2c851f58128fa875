"""Processes as Linux has them: whose child, since when, of which run. No word of nodes.

Used by the host, the keeper, the emulator and the sweep. Small imports: the host starts at once.
"""

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.kit import procstat

RUN_MARK = "HOLDFAST_RUN_ID"
"""Environment that every process of a run inherits: how a sweep tells its own, never by name."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


def become_subreaper() -> None:
    """Have orphans among our descendants become our children. Raises `OSError` off Linux."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent() -> None:
    """Have the kernel kill us when the thread that forked us ends. Raises `OSError` off Linux."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot: with the pid it names one process for ever."""
    seen = procstat.stat(pid)
    return seen.started_ticks if seen is not None and seen.acts else None


def children_of(parent: int) -> list[int]:
    """Pids whose parent is `parent`, zombies among them."""
    seen = ((pid, procstat.stat(pid)) for pid in all_pids())
    return [pid for pid, stat in seen if stat is not None and stat.parent == parent]


def command_of(pid: int) -> bytes:
    """Its command line, words ended by NUL; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def environment_of(pid: int) -> dict[str, str]:
    """What `pid` was started with; empty where it is gone or not ours to read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def marked(run_id: str | None = None, **also: str) -> Iterator[int]:
    """Live processes of the run (of any run: None) whose environment has all of `also`."""
    for pid in all_pids():
        mark = (environment := environment_of(pid)).get(RUN_MARK)
        if mark is None or (run_id is not None and mark != run_id) or pid == os.getpid():
            continue
        if all(environment.get(name) == value for name, value in also.items()):
            yield pid


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send the signal; False where the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def wait_gone(pids: list[int], within_s: float) -> bool:
    """Wait until none of `pids` runs any more (a zombie does not); False when time was up."""
    deadline = time.monotonic() + within_s
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        left_s = max(0.0, deadline - time.monotonic())
        ended = select.select([handle], [], [], left_s)[0]
        os.close(handle)
        if not ended:
            return False
    return True


def kill_marked(run_id: str, within_s: float = 5.0, **also: str) -> int:
    """SIGKILL what carries the mark until nothing does, forks in between too; how many it were.

    At least once, however long we stood still ourselves.
    """
    count = 0
    deadline = time.monotonic() + within_s
    while found := [pid for pid in marked(run_id, **also) if start_ticks(pid) is not None]:
        count += sum(kill(pid) for pid in found)
        wait_gone(found, deadline - time.monotonic())
        if time.monotonic() > deadline:
            break
    return count


def reap() -> dict[int, int]:
    """Wait status by pid of every child that has ended, without waiting."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    return ended

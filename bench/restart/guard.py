"""Runs one command and sees to it that nothing of it is left, whoever dies.

Started by the benchmark as a process of its own: `python guard.py COMMAND…`. It is the subreaper of
all that the command starts. When the command ends, or standard input closes (the benchmark is done,
or was killed), everything left is ended: SIGTERM to the command, then SIGKILL to all, by pid.
SIGUSR1 means SIGKILL to all at once: a node that vanishes.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h: orphans below this process become its children."""
GRACE_S = 10.0
LOOK_S = 0.05


def descendants() -> list[int]:
    """Pids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_all() -> None:
    """SIGKILL to everything below, until there is nothing."""
    while left := descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(LOOK_S)


def vanish(*_: object) -> None:
    end_all()
    os._exit(0)


def main(command: list[str]) -> int:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGUSR1, vanish)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    wanted = True
    while wanted and child.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_S)
        wanted = not readable
    if not wanted:
        child.terminate()
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    end_all()
    return child.wait() if wanted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What stands above an executor in these tests, as a node's host does: a subreaper that starts it
and, when it dies or the test does (stdin closes), ends everything below. Prints the pid."""

import ctypes
import os
import select
import subprocess
import sys

from holdfast.executor.adapters.proctree import below


def kill_all() -> None:
    while left := below(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        reap()


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def main() -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast.executor.main"], stdin=subprocess.DEVNULL
    )
    print(child.pid, flush=True)
    fd = os.pidfd_open(child.pid)
    select.select([fd, sys.stdin], [], [])
    kill_all()
    child.returncode = 0


main()

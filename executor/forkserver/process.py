"""Forks a process of Holdfast's own, a driver or a keeper, that has its modules already.

Called by `server`; `be` by `main`, at the bottom of the stack.
"""

import os
import runpy
import sys
from typing import NoReturn

from holdfast.executor.forkserver import marks
from holdfast.executor.forkserver.becoming import default_signals, give_up, print_to
from holdfast.executor.launcher import naming
from holdfast.executor.launcher.leaving import leave
from holdfast.protocol.forkserving import Process


def fork(asked: Process, lifeline: int) -> int | None:
    """Its pid; None in the process itself, of which nothing has begun. Raises `OSError`."""
    if pid := os.fork():
        return pid
    try:
        os.setsid()
        os.umask(asked.umask)
        os.chdir(asked.workdir)
        default_signals()
        print_to(asked.log)
        os.dup2(lifeline, 0)
        marks.put(asked.marks)
    except (OSError, ValueError) as error:
        give_up(error)
    return None


def be(asked: Process) -> NoReturn:
    """Run its module, as `python -m` does; its lifeline is its standard input until here."""
    os.dup2(0, asked.lifeline, inheritable=False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.argv[:] = ["-m", *asked.arguments]
    naming.call(asked.title, [os.path.basename(sys.executable), "-m", asked.module])
    try:
        runpy.run_module(asked.module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        leave(ended)
    leave(None)

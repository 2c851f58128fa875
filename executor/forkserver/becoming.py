"""How a process that a fork server forked becomes what it is to be.

Called by `node` and `process` in the child, and by `main` at the bottom of the stack.
"""

import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from holdfast.executor.forkserver import marks
from holdfast.executor.launcher import naming
from holdfast.executor.launcher.leaving import leave
from holdfast.protocol.forkserving import Alike, Program

NOTHING_BEGAN = 127


def begin(alike: Alike, program: Program) -> None:
    """What is set anew of what a process inherits. Raises `OSError`, `ValueError`."""
    os.setsid()
    os.umask(alike.umask)
    os.chdir(alike.workdir)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    print_to(program.log)
    marks.put(alike.marks)


def print_to(log: str) -> None:
    """From here on, to the end of this file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def be(program: Program) -> NoReturn:
    """Call `main` of its module, which `python -m` would call; then this process ends."""
    os.environ.clear()
    os.environ.update(program.environment)
    sys.argv[:] = ["-m", *program.arguments]
    words = [sys.executable, "-P", "-m", program.module, *program.arguments]
    naming.call(program.title, words)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        leave(SystemExit(import_module(program.module).main()))
    except SystemExit as ended:
        leave(ended)
    except BaseException as error:  # noqa: BLE001 - the end of the line: printed as python does
        sys.excepthook(type(error), error, error.__traceback__)
        leave(SystemExit(1))


def give_up(error: BaseException) -> NoReturn:
    os.write(2, f"nothing was forked: {error}\n".encode())
    os._exit(NOTHING_BEGAN)

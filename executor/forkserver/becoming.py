"""What every process that a fork server forks does first.

Called by `node` and `process`, in the child.
"""

import os
import signal
from typing import NoReturn

NOT_EXECUTED = 127


def default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def print_to(log: str) -> None:
    """From here on, to the end of this file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def give_up(error: BaseException) -> NoReturn:
    os.write(2, f"nothing was forked: {error}\n".encode())
    os._exit(NOT_EXECUTED)

"""Forks a process of Holdfast's own, a driver or a keeper, that has its modules already.

Called by `server`.
"""

import os

from holdfast.executor.forkserver.becoming import begin, give_up
from holdfast.protocol.forkserving import Process, Program


def fork(asked: Process, lifeline: int) -> int | Program:
    """Its pid; in the process itself what it is to be. Raises `OSError` where none was forked.

    The number that the lifeline has to have is free: nothing is open here but what `main` closes.
    """
    if pid := os.fork():
        return pid
    try:
        begin(asked, asked.program)
        os.dup2(lifeline, 0)
    except Exception as error:  # noqa: BLE001 - else there were a second server
        give_up(error)
    return asked.program


def take_lifeline(number: int) -> None:
    """Standard input until here, so that it was in nobody's way."""
    os.dup2(0, number, inheritable=False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

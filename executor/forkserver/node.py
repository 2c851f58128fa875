"""Forks a node: its host, below it its executor, below that the launcher, each the child of the one
before it, as if they had been started one by one.

Called by `server`. The first two are executed anew, at once; the launcher goes on from here, with
what was imported.
"""

import ctypes
import os
import signal
import socket
from typing import NoReturn

from holdfast.executor.forkserver import marks
from holdfast.executor.forkserver.becoming import default_signals, give_up, print_to
from holdfast.executor.launcher import naming
from holdfast.protocol.forkserving import Node, Start
from holdfast.protocol.nodeenv import LAUNCHER

PR_SET_CHILD_SUBREAPER = 36


def fork(node: Node) -> int | socket.socket:
    """The pid of its host; in the launcher, the end of the socket that its executor talks to.

    Raises `OSError` where nothing could be forked.
    """
    if pid := os.fork():
        return pid
    try:
        return _as_host(node)
    except BaseException as error:  # noqa: BLE001 - in a child, whose end is all that can be told
        give_up(error)


def _as_host(node: Node) -> socket.socket:
    """Subreaper before it has a child; it holds the executor's lifeline, whose name it is given."""
    os.setsid()
    os.umask(node.umask)
    os.chdir(node.workdir)
    default_signals()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    print_to(node.host.log)
    theirs, guard = os.pipe()
    if pid := os.fork():
        os.set_inheritable(guard, True)
        _execute(node.host, f"{pid}:{guard}")
    os.close(guard)
    return _as_executor(node, theirs)


def _as_executor(node: Node, lifeline: int) -> socket.socket:
    os.setsid()
    os.dup2(lifeline, 0)
    os.close(lifeline)
    print_to(node.executor.log)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if pid := os.fork():
        ours.set_inheritable(True)
        _execute(node.executor, more={LAUNCHER: f"{pid}:{ours.fileno()}"})
    ours.close()
    _as_launcher(node)
    return theirs


def _as_launcher(node: Node) -> None:
    """Nothing shows that it was not started by its executor."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    marks.put(node.marks)
    naming.call("launcher", ["launcher"])


def _execute(start: Start, *words: str, more: dict[str, str] | None = None) -> NoReturn:
    command = [*start.command, *words]
    os.execve(command[0], command, start.environment | (more or {}))

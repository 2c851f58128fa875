"""Forks a node: its host, below it its executor, below that the launcher, each the child of the one
before it, as if they had been started one by one.

Called by `server`.
"""

import ctypes
import os
import signal
import socket

from msgspec.structs import replace

from holdfast.executor.forkserver.becoming import begin, give_up, print_to
from holdfast.executor.launcher import naming
from holdfast.protocol.forkserving import Node, Program
from holdfast.protocol.nodeenv import LAUNCHER

PR_SET_CHILD_SUBREAPER = 36


def fork(node: Node) -> int | Program | socket.socket:
    """The pid of its host; in that and in the executor what they are to be, and in the launcher the
    end of the socket that its executor talks to. Raises `OSError` where nothing could be forked.
    """
    if pid := os.fork():
        return pid
    try:
        return _host(node)
    except Exception as error:  # noqa: BLE001 - else there were a second server
        give_up(error)


def _host(node: Node) -> Program | socket.socket:
    """A subreaper before it has a child; it holds the executor's lifeline, whose number it learns.

    `host` takes both as its second word, `PID:DESCRIPTOR`.
    """
    begin(node, node.host)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    theirs, guard = os.pipe()
    if pid := os.fork():
        os.close(theirs)
        return replace(node.host, arguments=(*node.host.arguments, f"{pid}:{guard}"))
    os.close(guard)
    return _executor(node.executor, theirs)


def _executor(executor: Program, lifeline: int) -> Program | socket.socket:
    os.setsid()
    os.dup2(lifeline, 0)
    os.close(lifeline)
    print_to(executor.log)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if pid := os.fork():
        theirs.close()
        launcher = {LAUNCHER: f"{pid}:{ours.detach()}"}
        return replace(executor, environment=executor.environment | launcher)
    ours.close()
    _launcher()
    return theirs


def _launcher() -> None:
    """As its executor would have started it."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    naming.call("launcher", ["launcher"])

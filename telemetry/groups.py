"""The process groups of a rank, to be aborted from another thread, and left.

Used by `reentry`. NCCL's can be aborted. Those of gloo in torch 2.15 wait for ever, whatever
`abort` says, until their connections end, as does a wait for the store: so all TCP connections end
that were opened since the function began.
"""

import os
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

C10D = "torch.distributed.distributed_c10d"


class Groups:
    """Of one function, from each of its beginnings on."""

    def __init__(self) -> None:
        self._before: frozenset[str] = frozenset()
        self._one = threading.Lock()  # a group must not be aborted while it is destroyed

    def begins(self) -> None:
        """What is open now is not of its groups."""
        self._before = frozenset(_sockets().values())

    def abort(self) -> None:
        """Have every wait for a peer end with an error."""
        with self._one:
            self._abort()

    def leave(self) -> None:
        """Have no group any more."""
        with self._one:
            self._abort()
            if (c10d := _with_groups()) is not None:
                with suppress(Exception):  # half of them may be gone
                    c10d.destroy_process_group()

    def _abort(self) -> None:
        for fd, name in _sockets().items():
            if name not in self._before:
                _end(fd)
        c10d, torch = _with_groups(), sys.modules.get("torch")
        if c10d is not None and torch is not None and torch.cuda.is_initialized():
            with suppress(Exception):  # not every backend can
                c10d._abort_process_group()


def _with_groups() -> Any:
    """The module that keeps them, where there are any."""
    c10d = sys.modules.get(C10D)
    return c10d if c10d is not None and c10d.is_initialized() else None


def _end(fd: int) -> None:
    """End a TCP connection, for both sides. What listens stays: gloo ends the process for that."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as mine:
        connects = mine.family in (socket.AF_INET, socket.AF_INET6) and not _listens(mine)
        if connects and mine.type == socket.SOCK_STREAM:
            mine.shutdown(socket.SHUT_RDWR)


def _listens(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _sockets() -> dict[int, str]:
    """Open sockets by descriptor, each with the name that the kernel has for it."""
    found: dict[int, str] = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{fd}")
            if name.startswith("socket:"):
                found[int(fd)] = name
    return found

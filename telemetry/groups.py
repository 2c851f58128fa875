"""The process groups of a rank, to be aborted from another thread, and left.

Used by `reentry`. NCCL's can be aborted; gloo's wait for ever in torch 2.15, whatever `abort` says,
until their connections end: so these are known by what was opened as a group was made.
"""

import os
import socket
import sys
from contextlib import suppress
from typing import Any

from holdfast.telemetry import hooks

C10D = "torch.distributed.distributed_c10d"


class Groups:
    """From its making on it knows the connections of each new group."""

    def __init__(self) -> None:
        self._sockets: set[str] = set()
        hooks.once_loaded(C10D, self._watch)

    def abort(self) -> None:
        """Have every wait for a peer end with an error."""
        c10d = sys.modules.get(C10D)
        if c10d is not None and c10d.is_initialized():
            with suppress(Exception):  # not every backend can
                c10d._abort_process_group()
        for fd, name in _sockets().items():
            if name in self._sockets:
                _end(fd)

    def leave(self) -> None:
        """Have no group any more."""
        self.abort()
        c10d = sys.modules.get(C10D)
        if c10d is not None and c10d.is_initialized():
            with suppress(Exception):  # half of them may be gone
                c10d.destroy_process_group()
        self._sockets.clear()

    def _watch(self, c10d: Any) -> None:
        make = c10d._new_process_group_helper

        def made(*positional: Any, **named: Any) -> Any:
            before = set(_sockets().values())
            try:
                return make(*positional, **named)
            finally:
                self._sockets |= set(_sockets().values()) - before

        c10d._new_process_group_helper = made


def _end(fd: int) -> None:
    """Both ends hear of it. Not of what listens: gloo ends the process where that fails."""
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as mine:
        if not mine.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            mine.shutdown(socket.SHUT_RDWR)


def _sockets() -> dict[int, str]:
    """Open sockets by descriptor, each with the name that the kernel has for it."""
    found: dict[int, str] = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{fd}")
            if name.startswith("socket:"):
                found[int(fd)] = name
    return found

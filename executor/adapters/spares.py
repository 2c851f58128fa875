"""Forked children that wait for their program: to start a rank is then one message to one of them.

Kept by `adapters.launcher`, which has them forked while ranks run, and drops them where they would
lack what the launcher has imported since.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

import msgspec

from holdfast.executor.adapters.children import Children, Exit
from holdfast.executor.launcher.orders import Fork
from holdfast.kit import procstat


class Spares:
    """Those that are there and have no program yet, by pid; `wanted` of them are to be."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._idle: dict[int, socket.socket] = {}
        self._coming: set[socket.socket] = set()
        self.wanted = 0

    @property
    def pids(self) -> Collection[int]:
        return self._idle.keys()

    @property
    def missing(self) -> int:
        return max(0, self.wanted - len(self._idle) - len(self._coming))

    def coming(self, link: socket.socket) -> Callable[[asyncio.Future[int]], None]:
        """One is ordered that is to wait at the other end of `link`: what to call with its pid."""
        self._coming.add(link)
        return partial(self._came, link)

    def _came(self, link: socket.socket, answer: asyncio.Future[int]) -> None:
        if link in self._coming and not answer.cancelled() and answer.exception() is None:
            self._idle[answer.result()] = link
            self._children.watch(answer.result(), self._ended)
        else:
            link.close()
        self._coming.discard(link)

    def start(self, order: Fork, stdout: int, stderr: int) -> int | None:
        """The pid of one that becomes what `order` says; None where none is there to take it."""
        packet = msgspec.json.encode(order)
        while self._idle:
            pid, link = self._idle.popitem()
            with link, suppress(OSError):  # it has just died: the next one
                if _is_stopped(pid):  # it would take the order, and never begin
                    os.kill(pid, signal.SIGKILL)
                    continue
                socket.send_fds(link, [packet], [stdout, stderr])
                return pid
        return None

    def drop(self) -> None:
        """Have none: they end as their sockets close. Of those that are coming none stays."""
        idle, self._idle = self._idle, {}
        self._coming.clear()
        for pid, link in idle.items():
            link.close()
            with suppress(ProcessLookupError):  # it may be stopped
                os.kill(pid, signal.SIGKILL)

    def _ended(self, pid: int, _: Exit) -> None:
        if (link := self._idle.pop(pid, None)) is not None:
            link.close()


def _is_stopped(pid: int) -> bool:
    seen = procstat.stat(pid)
    return seen is not None and seen.state in "Tt"

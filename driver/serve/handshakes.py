"""A listening socket with TLS that has no more handshakes under way than end in time.

Used by `server` where asyncio's own server would begin with everybody: nodes that come back after
a restart come all at once, each gives up after some seconds, and most of what was done was for
nobody. So they wait, and the newest have the first places, for they have the most time left
(Maurer, "Fail at Scale", ACM Queue 13(8), 2015: adaptive LIFO). Must not know what is served.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from functools import partial

from holdfast.kit.logs import LazyLogger

AT_ONCE = 256
"""Each takes 40 KiB, and its peer's time and the network's. Measured: 32 were too few where that is
half a second (docs/decisions/when-many-nodes-reconnect.md)."""

WITHIN_S = 5.0
"""A node gives up after as long; one that says nothing has its place for no longer."""

AGAIN_S = 1.0
"""Until the next try, where there is no file descriptor left."""

_log = LazyLogger()


class Handshakes:
    """Accepts until closed. What `protocol` makes has a connection once it is secret."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[], asyncio.Protocol],
        *,
        at_once: int = AT_ONCE,
        within_s: float = WITHIN_S,
    ) -> None:
        listening.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._context = context
        self._protocol = protocol
        self._at_once = at_once
        self._within_s = within_s
        self._waiting: list[socket.socket] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._closed = False
        self._go_on()

    def close(self) -> None:
        """Nobody more, nor who has not got through; the socket is then the caller's to close."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._listening)
            for task in self._under_way:
                task.cancel()
            while self._waiting:
                self._waiting.pop().close()

    def _go_on(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """All who are in the socket's queue."""
        try:
            while True:
                accepted, _ = self._listening.accept()
                accepted.setblocking(False)
                self._waiting.append(accepted)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass
        except OSError as error:
            _log.warning("connection not accepted", why=str(error))
            self._loop.remove_reader(self._listening)
            self._loop.call_later(AGAIN_S, self._go_on)
        self._begin()

    def _begin(self) -> None:
        """With the newest who wait, while there are places."""
        while self._waiting and len(self._under_way) < self._at_once:
            accepted = self._waiting.pop()
            if _left(accepted):
                accepted.close()
                continue
            task = self._loop.create_task(self._shake_hands(accepted))
            self._under_way.add(task)
            task.add_done_callback(partial(self._over, accepted))

    def _over(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if task.cancelled():
            accepted.close()  # where it had not begun, nobody else does
        self._begin()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._within_s,
            )
        except OSError as error:
            _log.debug("no handshake", why=str(error))


def _left(accepted: socket.socket) -> bool:
    """Whether who is at the other end has closed it, while it waited."""
    poll = select.poll()
    poll.register(accepted, select.POLLRDHUP)
    return bool(poll.poll(0))

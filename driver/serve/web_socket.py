"""One WebSocket of a node: uvicorn's, with less held for each of the thousands that only wait.

Made by uvicorn for each that is asked for (`server`). asyncio's queues and events have room for
many who wait, 3 KB a queue; here one waits. Who has been let in needs no headers any more, and what
came in a frame is not kept until the next one comes.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame


class Gate:
    """As much of `asyncio.Event` as is used there."""

    __slots__ = ("_open", "_waiting")

    def __init__(self, *, opened: bool) -> None:
        self._open = opened
        self._waiting: list[asyncio.Future[None]] = []

    def set(self) -> None:
        self._open = True
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    def clear(self) -> None:
        self._open = False

    async def wait(self) -> None:
        while not self._open:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            finally:
                self._waiting.remove(waiting)


class Received:
    """As much of `asyncio.Queue` as is used there; one takes."""

    __slots__ = ("_events", "_waiting")

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._waiting: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        self._events.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def empty(self) -> bool:
        return not self._events

    async def get(self) -> Any:
        while not self._events:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._events.pop(0)


class NodeSocket(WebSocketsSansIOProtocol):
    """See the module."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue = Received()  # type: ignore[assignment]
        self.writable = Gate(opened=True)  # type: ignore[assignment]

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.accept":
            self.response = None  # type: ignore[assignment]
            self.request.headers.clear()
            self.scope["headers"].clear()  # type: ignore[attr-defined]

    def handle_bytes(self, event: Frame) -> None:
        super().handle_bytes(event)
        event.data = b""  # which its parser holds, with all that a node of 8 ranks told

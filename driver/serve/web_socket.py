"""One WebSocket of a node: uvicorn's, with less held for each of the thousands that only wait.

Made by uvicorn for each that is asked for (`server`). asyncio's queues and events have room for
many who wait, 3 KB a queue; here one waits. And who has been let in needs no headers any more.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


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

    __slots__ = ("_any", "_events")

    def __init__(self) -> None:
        self._events: list[Any] = []
        self._any = Gate(opened=False)

    def put_nowait(self, event: Any) -> None:
        self._events.append(event)
        self._any.set()

    def empty(self) -> bool:
        return not self._events

    async def get(self) -> Any:
        await self._any.wait()
        event = self._events.pop(0)
        if not self._events:
            self._any.clear()
        return event


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
            self.scope["headers"].clear()  # type: ignore[attr-defined]

"""One WebSocket of a node: its handshake, its frames in and out, its end.

Used by `sessions` and `daemons`. What a peer does wrong is answered by one `Refused` that
names it and the fix, then the connection ends; nothing else is changed.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Hello, Message, Refused, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, ProtocolError, encode

HELLO_WITHIN_S = 10.0
"""A peer that connects and says nothing for so long is not one of ours."""

OUTBOX_FRAMES = 256
"""A peer that lets so many frames lie is not reading: it is cut off, and reconnects if it lives."""

POLICY_VIOLATION = 1008
"""Close code for a peer that broke the rules (RFC 6455, section 7.4.1)."""
IN_ORDER = frozenset({1000, 1001})
"""Close codes of a peer that meant to end the connection; the same section."""

_log = LazyLogger()


class Rejected(Exception):
    """What the peer is told before its connection ends."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(f"{what}: {why}. {fix}")
        self.refused = Refused(what=what, why=why, fix=fix)


class Link:
    """A connection of one process of a node."""

    __slots__ = (
        *("_socket", "_decoder", "_node", "_process"),
        *("_outbox", "_talking", "_writing", "_failed", "_cut"),
    )

    def __init__(
        self, socket: WebSocket, decoder: Decoder[Any], *, node: str, process: str
    ) -> None:
        self._socket = socket
        self._decoder = decoder
        self._node = node
        self._process = process
        self._outbox: list[Message | None] = []
        self._talking: asyncio.Timeout | None = None  # once hands are shaken; over at `_stop`
        self._writing: asyncio.Task[None] | None = None  # while there is something to send
        self._failed: BaseException | None = None  # in writing
        self._cut = False

    def send(self, message: Message | None) -> None:
        """Send soon, in order; None ends the connection after what was sent before."""
        if len(self._outbox) < OUTBOX_FRAMES:
            self._outbox.append(message)
            self._begin_writing()
        else:
            self._cut = True
            self._stop()

    def close(self, refused: Refused) -> None:
        """Say why, then end the connection."""
        self.send(refused)
        self.send(None)

    async def run(
        self,
        welcome: Welcome,
        *,
        opened: Callable[[Hello], None],
        received: Callable[[Any], None],
    ) -> str:
        """Shake hands, call `opened`, then `received` for each message until the end.

        Gives the reason for the end in a few words. Never raises for what the peer does.
        """
        try:
            hello = await self._greeting()
            self.send(welcome)
            opened(hello)
            return await self._talk(received)
        except Rejected as error:
            _log.warning("node refused", node=self._node, process=self._process, why=str(error))
            await self._refuse(error.refused)
            return str(error)
        except WebSocketDisconnect as error:
            return f"the connection {'was closed' if error.code in IN_ORDER else 'broke off'}"

    async def _greeting(self) -> Hello:
        try:
            hello = await asyncio.wait_for(self._receive(), HELLO_WITHIN_S)
        except TimeoutError:
            raise Rejected(
                "Hello", f"nothing came within {HELLO_WITHIN_S:g} s", "Send Hello first."
            ) from None
        if not isinstance(hello, Hello):
            raise Rejected("Hello", f"{type(hello).__name__} came first", "Send Hello first.")
        if hello.protocol != PROTOCOL_VERSION:
            raise Rejected(
                "protocol",
                f"version {hello.protocol}, this driver speaks {PROTOCOL_VERSION}",
                "Run the same version of Holdfast on both sides.",
            )
        if (hello.node, hello.process) != (self._node, self._process):
            raise Rejected(
                "Hello",
                f"from {hello.process} of {hello.node} on the address for {self._process} of "
                f"{self._node}",
                "Connect to the address of your own node and process.",
            )
        return hello

    async def _talk(self, received: Callable[[Any], None]) -> str:
        """Read and write until one of both ends, or the peer is cut off for not reading. To read
        takes no task of its own: each is 2 KB, of thousands.
        """
        self._talking = talking = asyncio.timeout(None)
        try:
            async with talking:
                self._begin_writing()
                while True:
                    received(await self._receive())
        except TimeoutError:
            if not talking.expired():
                raise
        finally:
            self._talking = None
            await self._end_writing()
        if self._failed is not None:
            raise self._failed
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(POLICY_VIOLATION)
        return "it did not read what it was sent" if self._cut else "closed by the driver"

    def _begin_writing(self) -> None:
        if self._outbox and self._talking is not None and self._writing is None:
            self._writing = asyncio.create_task(self._write())
            self._writing.add_done_callback(self._wrote)

    async def _write(self) -> None:
        while self._outbox:
            if (message := self._outbox.pop(0)) is None:
                self._outbox.clear()
                self._stop()
                return
            await self._socket.send_bytes(encode(message))

    async def _end_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _wrote(self, writing: asyncio.Task[None]) -> None:
        self._writing = None
        if writing.cancelled():
            return
        if (error := writing.exception()) is not None:
            self._failed = error
            self._stop()
        else:
            self._begin_writing()  # what came after its last look

    def _stop(self) -> None:
        """The connection is over, once whoever runs it has seen it."""
        if self._talking is not None and not self._talking.expired():
            self._talking.reschedule(asyncio.get_running_loop().time())

    async def _receive(self) -> Any:
        event = await self._socket.receive()
        if event["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(event["code"], event.get("reason"))
        frame = event.get("bytes")
        try:
            return self._decoder.decode(event["text"] if frame is None else frame)
        except ProtocolError as error:
            raise Rejected(
                "frame", str(error).removeprefix("frame: "), "Mend the sender."
            ) from None

    async def _refuse(self, refused: Refused) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_bytes(encode(refused))
            await self._socket.close(POLICY_VIOLATION, refused.what)

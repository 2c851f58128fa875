"""One connection of a person's: who does not say what he wants, or does not read it, is let go.

Made by `server` for each connection, in place of uvicorn's own protocol, which waits for the rest
of a head, and for who does not read, for ever. Must not know what is served.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.kit.logs import LazyLogger

HEAD_S = 10.0
"""From the connection, or the first byte of a further request, to the end of the head."""

UNREAD_S = 30.0
"""A reader whose socket is full takes nothing for so long: 64 KiB wait for him here. One that reads
2 KB a second stays."""

_log = LazyLogger()


class Connection(H11Protocol):
    """Until it is a WebSocket's: those have time limits of their own."""

    head_s = HEAD_S
    unread_s = UNREAD_S

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_head()
        self._is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._has_head()
        super().handle_websocket_upgrade(event)

    def _look(self) -> None:
        asked: RequestResponseCycle | None = self.cycle
        if self.transport.get_protocol() is not self or self.transport.is_closing():
            self._has_head()
        elif asked is None or asked.response_complete:
            self._wait_for_head()
        else:
            self._has_head()

    # ------------------------------------------------------------ a head that does not come

    def _wait_for_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self.head_s, self._no_head)

    def _has_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _no_head(self) -> None:
        """Say so where nothing else was said on this connection, and end it."""
        self._head = None
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
            text = f"The head of the request did not come within {self.head_s:g} s.\n".encode()
            length = str(len(text)).encode()
            kind = (b"content-type", b"text/plain; charset=utf-8")
            headers = [kind, (b"content-length", length), (b"connection", b"close")]
            for each in (
                h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
                h11.Data(data=text),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(each))
        self.transport.close()

    # ------------------------------------------------------------ an answer that is not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.unread_s, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _drop(self) -> None:
        why = f"who asked for it has read nothing for {self.unread_s:g} s"
        _log.warning("reader dropped", path=self.scope["path"], client=self.client, why=why)
        self.transport.abort()

"""A way to a server that can be cut and mended, or on which answers are held back: a relay on
loopback that knows nothing of what it carries. For tests that need a loss of the network and not of
the server.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from holdfast.kit.together import until_first


class Cuttable:
    """A relay to `host`:`port`; connect to `at_port`. Use with `cuttable`."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._carrying: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None
        self._hold_at: re.Pattern[bytes] | None = None
        self._may_answer: set[asyncio.Event] = set()
        self.holds = asyncio.Event()
        self.at_port = 0

    async def mend(self) -> None:
        """From now on connections are taken; at first, and after `cut`."""
        self._listening = socket.create_server(("127.0.0.1", self.at_port))
        self._listening.setblocking(False)
        self.at_port = self._listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        """In one turn of the event loop: asyncio's own server leaks what it takes as it closes."""
        with suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = listening.accept()
            task = asyncio.create_task(self._carry(client))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)
            task.add_done_callback(lambda _: client.close())

    async def cut(self) -> None:
        """No connection stays, and none is taken."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        self.drop()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def drop(self) -> None:
        """No connection stays, and new ones are taken."""
        for each in self._carrying:
            each.cancel()

    def hold_answers(self, at: bytes) -> None:
        """Once a client has said what the expression `at` finds, give it no answer any more.

        `holds` is set from then on, until `release`.
        """
        self._hold_at = re.compile(at, re.DOTALL)
        self.holds.clear()

    def answer_others(self) -> None:
        """Hold back no more answers than are held back by now: who connects anew gets them."""
        self._hold_at = None

    def release(self) -> None:
        self.answer_others()
        for each in self._may_answer:
            each.set()

    async def _carry(self, client: socket.socket) -> None:
        with suppress(OSError, asyncio.CancelledError):
            reader, writer = await asyncio.open_connection(sock=client)
            with _aborted(writer):
                there, back = await asyncio.open_connection(*self._to)
                with _aborted(back):
                    await self._join(reader, writer, there, back)

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        may_answer = asyncio.Event()
        may_answer.set()
        self._may_answer.add(may_answer)
        try:
            await until_first(
                self._ask(reader, back, may_answer), _answer(there, writer, may_answer)
            )
        finally:
            self._may_answer.remove(may_answer)

    async def _ask(
        self, client: asyncio.StreamReader, server: asyncio.StreamWriter, may_answer: asyncio.Event
    ) -> None:
        said = b""
        while data := await client.read(65_536):
            if self._hold_at is not None:
                said += data
                if self._hold_at.search(said):
                    may_answer.clear()
                    self.holds.set()
            server.write(data)
            await server.drain()


@contextmanager
def _aborted(writer: asyncio.StreamWriter) -> Iterator[None]:
    """At the end of the block the connection ends, also where the block is cancelled."""
    try:
        yield
    finally:
        writer.transport.abort()


async def _answer(
    server: asyncio.StreamReader, client: asyncio.StreamWriter, may_answer: asyncio.Event
) -> None:
    while data := await server.read(65_536):
        await may_answer.wait()
        client.write(data)
        await client.drain()


@asynccontextmanager
async def cuttable(host: str, port: int) -> AsyncIterator[Cuttable]:
    """A mended `Cuttable`, of which nothing is left afterwards."""
    relay = Cuttable(host, port)
    await relay.mend()
    try:
        yield relay
    finally:
        await relay.cut()

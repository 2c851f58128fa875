"""A way to a server that can be cut and mended: a relay on loopback that knows nothing of what it
carries. For tests that need a loss of the network and not of the server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Cuttable:
    """A relay to `host`:`port`; connect to `at_port`. Use with `cuttable`."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._carrying: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.at_port = 0

    async def mend(self) -> None:
        """From now on connections are taken; at first, and after `cut`."""
        self._listening = await asyncio.start_server(self._carry, "127.0.0.1", self.at_port)
        self.at_port = self._listening.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """No connection stays, and none is taken."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        self.drop()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def drop(self) -> None:
        """No connection stays, and new ones are taken."""
        for each in self._carrying:
            each.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        with suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection(*self._to)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pour(reader, back))
                    both.create_task(_pour(there, writer))
            finally:
                back.transport.abort()
                writer.transport.abort()


async def _pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
    raise asyncio.CancelledError  # one end is over, and so is the other


@asynccontextmanager
async def cuttable(host: str, port: int) -> AsyncIterator[Cuttable]:
    """A mended `Cuttable`, of which nothing is left afterwards."""
    relay = Cuttable(host, port)
    await relay.mend()
    try:
        yield relay
    finally:
        await relay.cut()

"""Where the keeper is reached: a Unix socket for the driver, a datagram port for the leases.

Run by `keeper.serve`. Must not decide anything: it decodes, asks the keeper, and answers.
"""

import asyncio
import hmac
import os
from pathlib import Path
from typing import cast

from holdfast.keeper.keeper import Keeper, Refusal
from holdfast.kit.files import check_socket_path
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import keeping, lease

log = LazyLogger()


class LeasePort(asyncio.DatagramProtocol):
    """Hears renewals over the nodes' links and answers each, so that hosts know that we live."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        renewal = lease.unpack(data[: lease.MAX_DATAGRAM_BYTES])
        token = self._keeper.state.token
        if renewal is None or not hmac.compare_digest(renewal.token.encode(), token.encode()):
            return
        self._keeper.renewed(renewal.node, renewal.incarnation)
        if self._transport is not None:
            self._transport.sendto(lease.pack(renewal), addr)

    def error_received(self, exc: Exception) -> None:
        """A host that went away refused our answer: its lease will tell."""


class Api:
    """Serves `protocol.keeping`."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen at `path`, for this user alone. Raises `ValueError` where the path is too long."""
        check_socket_path(path, "--state")
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(self._serve_one, path)
        finally:
            os.umask(before)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readexactly(keeping.LENGTH.size)
            request = keeping.request_of(await reader.readexactly(keeping.body_length(head)))
            if isinstance(request, keeping.WatchFacts):
                await self._stream(reader, writer)
            else:
                await self._send(writer, self._answer(request))
        except keeping.NotOurs as error:
            await self._send(writer, keeping.Failed(why=str(error), permanent=True))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the keeper ends: it asks again if it wants to know
        finally:
            writer.close()

    def _answer(self, request: keeping.Request) -> keeping.Done | keeping.Failed:
        try:
            self._keeper.answer(request)
        except Refusal as refusal:
            return keeping.Failed(why=str(refusal), permanent=refusal.permanent)
        return keeping.Done()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        facts: asyncio.Queue[keeping.NodeFact] = asyncio.Queue()
        self._keeper.watchers.add(facts.put_nowait)
        hung_up = asyncio.create_task(reader.read(1))
        try:
            for fact in self._keeper.facts():
                await self._send(writer, fact)
            while not hung_up.done():
                following = asyncio.create_task(facts.get())
                await asyncio.wait({following, hung_up}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    await self._send(writer, following.result())
                else:
                    following.cancel()
        finally:
            hung_up.cancel()
            self._keeper.watchers.discard(facts.put_nowait)

    async def _send(self, writer: asyncio.StreamWriter, said: keeping.Said) -> None:
        writer.write(keeping.frame(said))
        await writer.drain()

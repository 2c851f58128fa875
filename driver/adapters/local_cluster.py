"""The local cluster: a client of the keeper's Unix socket, behind `ports.Cluster`.

Made by the driver's main where a keeper is given. One connection a call, one for the facts; after a
lost connection it asks again and tells every fact again. Must not guess: while the keeper is away
it says nothing about nodes, for nothing is known.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.driver.ports import Fact, PermanentError, TemporaryError
from holdfast.kit.backoff import full_jitter
from holdfast.protocol import keeping

CALL_WITHIN_S = 5.0
"""A keeper answers from memory; one that takes longer is not answering."""


class LocalCluster:
    """Nodes that the keeper at `socket` keeps."""

    executors_first = True

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._connected = False

    def absent(self) -> dict[str, str]:
        """A node that was never there is not one of the keeper's nodes yet."""
        return {}

    def hindrance(self, job: str) -> str:
        """None: its nodes have their executors before."""
        return ""

    def away(self) -> str:
        """Why nothing is known of nodes now, in a sentence; "" while the keeper tells."""
        return "" if self._connected else f"the keeper at {self._socket} does not answer"

    async def facts(self) -> AsyncIterator[Fact]:
        waits = full_jitter(base_s=0.1, cap_s=2.0)
        while True:
            try:
                async with self._connection(keeping.WatchFacts()) as reader:
                    self._connected = True
                    while True:
                        said = await _next(reader)
                        waits = full_jitter(base_s=0.1, cap_s=2.0)
                        yield _fact(said)
            except (OSError, asyncio.IncompleteReadError):
                self._connected = False
                await asyncio.sleep(next(waits))

    async def allocate(self, job: str, node: str) -> None:
        await self._call(keeping.Allocate(job=job, node=node))

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        """The keeper's executors run whatever is wanted of their nodes."""
        await self._call(keeping.Allocate(job=job, node=node, trial=True))

    def give_up(self, node: str) -> None:
        """An allocation is one answer of the keeper: nothing waits."""

    async def release(self, node: str) -> None:
        await self._call(keeping.Release(node=node))

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        await self._call(keeping.Distrust(node=node, incident=incident, reason=reason))

    async def trust(self, node: str) -> None:
        await self._call(keeping.Trust(node=node))

    async def _call(self, request: keeping.Request) -> None:
        """Raises `TemporaryError` or `PermanentError` in the keeper's words, or for its absence."""
        try:
            async with asyncio.timeout(CALL_WITHIN_S), self._connection(request) as reader:
                answer = await _next(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise TemporaryError(
                f"the keeper at {self._socket} does not answer: {error}"
            ) from error
        except keeping.NotOurs as error:
            raise PermanentError(
                f"the keeper at {self._socket} is of another kind: {error}"
            ) from error
        if isinstance(answer, keeping.Failed):
            raise (PermanentError if answer.permanent else TemporaryError)(answer.why)

    @asynccontextmanager
    async def _connection(self, request: keeping.Request) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(keeping.frame(request))
            await writer.drain()
            yield reader
        finally:
            writer.close()


async def _next(reader: asyncio.StreamReader) -> keeping.Answer:
    head = await reader.readexactly(keeping.LENGTH.size)
    return keeping.answer_of(await reader.readexactly(keeping.body_length(head)))


def _fact(said: keeping.Answer) -> Fact:
    if not isinstance(said, keeping.NodeFact):
        raise PermanentError(f"the keeper answered {said!r} where a fact was due")
    return Fact(
        node=said.node,
        rack=said.rack,
        present=said.present,
        distrusted=said.distrusted,
        why=said.why,
    )

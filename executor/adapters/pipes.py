"""The read end of a pipe to a child, as an asyncio stream."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def readable(fd: int, *, limit_bytes: int = 1 << 20) -> AsyncIterator[asyncio.StreamReader]:
    """Lines of at most `limit_bytes` from `fd`, which is closed at the end."""
    reader = asyncio.StreamReader(limit=limit_bytes)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()

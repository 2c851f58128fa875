"""Answers the neighbours' probes: accepts a connection and hangs up.

Run by the daemon's loop. The kernel accepts even while this process is stopped, and refuses when it
is gone: either is an answer of the *node*, and that is what a probe asks for.
"""

import asyncio

from holdfast.kit.logs import LazyLogger

BACKLOG = 4_096
"""Probes that a stopped daemon's kernel goes on answering: minutes of three neighbours' probes."""

_log = LazyLogger()


async def serve(address: str, port: int) -> asyncio.Server | None:
    """Listen at `address`; None, said in the log, where the port cannot be had."""
    try:
        return await asyncio.start_server(_hang_up, address, port, backlog=BACKLOG)
    except OSError as error:
        _log.warning("probe port refused", address=address, port=port, why=str(error))
        return None


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()

"""Whether a Redis answers, as a node sees it: no library, no password, no word but PING.

Called by `executor.meeting`. What it answers is no matter: that it wants a password is an answer.
"""

import asyncio
import os
import ssl
from urllib.parse import SplitResult, urlsplit

PATIENCE_S = 3.0
"""A server that stands still takes connections all the same, and answers nothing."""
PORT = 6379
LOADS = b"-LOADING"


async def silence(url: str, *, within_s: float = PATIENCE_S) -> str:
    """Why it does not answer, in a few words; "" where it does."""
    try:
        async with asyncio.timeout(within_s):
            line = await _answer(urlsplit(url))
    except TimeoutError:
        return f"no answer within {within_s:g} s"
    except OSError as error:
        return _words(error)
    if line.startswith(LOADS):
        return "it loads what it keeps"
    return "" if line else "it closes the connection"


def place(url: str) -> str:
    """The server, without what else the URL says."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    host = parts.hostname or ""
    return f"[{host}]:{parts.port or PORT}" if ":" in host else f"{host}:{parts.port or PORT}"


def _words(error: OSError) -> str:
    """Python's own numbers, of names that are not known, are below nought."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


async def _answer(parts: SplitResult) -> bytes:
    reader, writer = await _connected(parts)
    try:
        writer.write(b"PING\r\n")
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()


async def _connected(parts: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if parts.scheme == "unix":
        return await asyncio.open_unix_connection(parts.path)
    context = _unverified() if parts.scheme == "rediss" else None
    return await asyncio.open_connection(parts.hostname, parts.port or PORT, ssl=context)


def _unverified() -> ssl.SSLContext:
    """Whose it is matters to ranks, who tell it something."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

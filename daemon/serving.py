"""`GET /metrics` at the daemon, where its settings name an address. Nothing else is answered."""

import asyncio

from holdfast.daemon.metrics import Figures
from holdfast.kit.logs import LazyLogger

WITHIN_S = 5.0
"""For a whole request to come, and its answer to go."""

_log = LazyLogger()


async def serve(address: str, figures: Figures) -> asyncio.Server | None:
    """At HOST:PORT; None where it is empty, or cannot be had, which is said: the node is watched
    all the same."""
    if not address:
        return None
    host, _, port = address.rpartition(":")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                asked = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(asked, figures))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks so is answered nothing
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, host.strip("[]"), int(port))
    except OSError as error:
        _log.warning("no metrics", at=address, why=error.strerror or str(error))
        return None


def _answer(asked: bytes, figures: Figures) -> bytes:
    method, _, rest = asked.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if (method, path) != (b"GET", b"/metrics"):
        return _http("404 Not Found", b"Ask for GET /metrics.\n")
    return _http("200 OK", figures.text())


def _http(status: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body

"""One watch: bytes of a response to events.

Used by `client`. A watch that says nothing is not believed for long: servers send a bookmark about
every minute. Must not go on after an error; whoever watches decides how.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Literal

import aiohttp
import msgspec

from holdfast.kubeapi.errors import (
    Malformed,
    Silent,
    Unreachable,
    error_of_event,
)
from holdfast.kubeapi.transport import unreachable

LONGEST_LINE_BYTES = 16 * 1024 * 1024
"""etcd takes objects of 1.5 MiB; their JSON with all its quotes is a few times that."""


class Event(msgspec.Struct, frozen=True):
    """What happened to an object; a BOOKMARK's has nothing but its `metadata.resourceVersion`."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: dict[str, Any]


_decoder = msgspec.json.Decoder(Event)


async def events(
    doing: str, content: aiohttp.StreamReader, quiet_s: float
) -> AsyncGenerator[Event, None]:
    """Each event until the server ends the watch.

    Raises `Unreachable` where it is cut, `Silent` after `quiet_s` without a byte, `Malformed`, and
    what an ERROR event says (`Gone`, mostly).
    """
    rest = b""
    while read := await _read(doing, content, quiet_s):
        *lines, rest = (rest + read).split(b"\n")
        for line in filter(None, lines):
            yield _event(doing, line)
        if len(rest) > LONGEST_LINE_BYTES:
            raise Malformed(f"{doing}: a line of more than {LONGEST_LINE_BYTES} bytes")
    if rest.strip():
        raise Unreachable(f"{doing}: cut within a line")


async def _read(doing: str, content: aiohttp.StreamReader, quiet_s: float) -> bytes:
    """What has come, at least a byte; nothing at the end."""
    try:
        async with asyncio.timeout(quiet_s):
            with unreachable(doing):
                return await content.readany()
    except TimeoutError as error:
        raise Silent(f"{doing}: nothing for {quiet_s:g} s, not even a bookmark") from error


def _event(doing: str, line: bytes) -> Event:
    try:
        event = _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise Malformed(f"{doing}: a line that is no event: {error}") from error
    if event.type == "ERROR":
        raise error_of_event(doing, event.object)
    return event

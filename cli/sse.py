"""Server-sent events out of a stream of bytes. Pure."""

import json
from collections.abc import Iterable, Iterator
from typing import Any


def events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Each event's `data` as JSON; comments (keep-alives) and empty events are passed over.

    Source of the format: HTML Living Standard, 9.2.6 "Interpreting an event stream".
    """
    data: list[str] = []
    for line in _lines(pieces):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield json.loads("\n".join(data))
            data = []


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode()

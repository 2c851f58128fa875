"""Where blocks of spans go: one small port, an adapter each for files and a Redis."""

from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.traces.block import Block

OFF = "off"
"""In place of a URL: nothing is kept."""


class Place(NamedTuple):
    """Whose block it is. `folder`: the job's traces as this node sees them; `now_s`: the driver's
    clock, by which files are named."""

    folder: Path
    job: str
    attempt: int
    node: str
    now_s: float


class Away(Exception):
    """It takes nothing now; the message says why, in a few words without a secret."""


class Sink(Protocol):
    """Takes blocks, in a thread that may wait for it."""

    @property
    def named(self) -> str:
        """What people are told it is."""
        ...

    def put(self, place: Place, data: bytes) -> None:
        """Keep an encoded block. Raises `Away`; then nothing of it is kept."""
        ...


def amiss(url: str) -> str:
    """What is wrong with where traces should go, in a sentence with the fix; "" if nothing is."""
    if url in ("", OFF) or url.startswith(("redis://", "rediss://", "unix://")):
        return ""
    return f"{url!r} is no place for traces: give redis://HOST:PORT, {OFF}, or nothing for files."


def open_sink(url: str, password: str = "") -> Sink:
    """Of a URL that is not amiss: files where it is empty. Raises `Away` where its library is not
    installed."""
    if url:
        from holdfast.traces.sinks.redis import RedisSink

        return RedisSink(url, password)
    from holdfast.traces.sinks.files import FileSink

    return FileSink()


def size_of(block: Block) -> int:
    """Spans in it: what is lost with it."""
    return len(block.spans) + block.dropped

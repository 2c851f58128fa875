"""Spans of one node's ranks as bytes: a head that can be passed over, and columns, compressed.

Written by daemons into files and a Redis alike. A block stands for itself: a reader that meets a
torn one goes on at the next. Pure.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeVar

import msgspec

from holdfast.traces.model import Span

T = TypeVar("T")

MAGIC: Final = b"HFTB"
VERSION: Final = 1
HEAD: Final = struct.Struct("<4sHHIIdd")
"""magic, version, 0, octets of the body, their CRC-32, and from when to when its spans are: seconds
of the driver's clock since the job's submission."""
LARGEST_BYTES: Final = 16 << 20
"""Of a body: more is none of ours. A daemon writes some tens of KiB at once."""


class NoBlock(ValueError):
    """These bytes are no block that can be read; the message says why."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`submitted_s`: the job's submission, on the driver's clock. `error_s`: how far the node's
    clock may be off. `dropped`: spans that were lost since the block before. `whole`: it has all
    spans of its time. `wall_s`: time of day when it was written."""

    job: str
    node: str
    submitted_s: float
    error_s: float
    wall_s: float
    dropped: int
    whole: bool
    spans: list[Span]


class _Body(msgspec.Struct, frozen=True, array_like=True):
    job: str
    node: str
    submitted_s: float
    error_s: float
    wall_s: float
    dropped: int
    whole: bool
    words: list[str]
    groups: list[int]
    origin_us: int
    columns: list[list[int]]


_DECODE = msgspec.msgpack.Decoder(_Body).decode
_ENCODE = msgspec.msgpack.Encoder().encode
COLUMNS: Final = 11


def encode(block: Block) -> bytes:
    """As bytes. Spans of one rank are best one after the other: differences are small then."""
    spans = block.spans
    words = _numbered(word for span in spans for word in (span.kind, span.name))
    groups = _numbered(span.group for span in spans)
    starts = [span.began_us for span in spans]
    origin_us = min(starts, default=0)
    columns = [
        _steps([span.rank for span in spans]),
        _steps([span.attempt for span in spans]),
        [words[span.kind] for span in spans],
        [words[span.name] for span in spans],
        [groups[span.group] for span in spans],
        _steps([span.step for span in spans]),
        _steps([span.number for span in spans]),
        _steps([start - origin_us for start in starts]),
        [round(span.took_s * 1e6) for span in spans],
        [round(span.waited_s * 1e6) for span in spans],
        [int(span.ended) for span in spans],
    ]
    said = _Body(
        block.job,
        block.node,
        block.submitted_s,
        block.error_s,
        block.wall_s,
        block.dropped,
        block.whole,
        [*words],
        [*groups],
        origin_us,
        columns,
    )
    body = zlib.compress(_ENCODE(said), 6)
    from_s = min((span.start_s for span in spans), default=0.0)
    to_s = max((span.start_s + span.took_s for span in spans), default=0.0)
    return HEAD.pack(MAGIC, VERSION, 0, len(body), zlib.crc32(body), from_s, to_s) + body


def decode(data: bytes) -> Block:
    """The block that is `data`, head and body. Raises `NoBlock`."""
    length, crc, _, _ = head(data)
    body = data[HEAD.size : HEAD.size + length]
    if len(body) < length or zlib.crc32(body) != crc:
        raise NoBlock("it is torn or damaged")
    try:
        unpacked = zlib.decompressobj().decompress(body, LARGEST_BYTES)
        return _block(_DECODE(unpacked))
    except (zlib.error, msgspec.MsgspecError, ValueError, IndexError) as error:
        raise NoBlock(f"it cannot be read: {error}") from error


def head(data: bytes) -> tuple[int, int, float, float]:
    """Octets of the body, their CRC, and from when to when it is. Raises `NoBlock`."""
    if len(data) < HEAD.size or data[:4] != MAGIC:
        raise NoBlock("there is no block of spans")
    _, version, _, length, crc, from_s, to_s = HEAD.unpack_from(data)
    if version != VERSION:
        raise NoBlock(f"it is of version {version}, and this Holdfast reads version {VERSION}")
    if length > LARGEST_BYTES:
        raise NoBlock(f"it says that it has {length:,} octets, more than any")
    return length, crc, from_s, to_s


def _block(body: _Body) -> Block:
    if len(body.columns) != COLUMNS or len({len(column) for column in body.columns}) > 1:
        raise NoBlock("its columns are not of one length")
    ranks, attempts, kinds, names, groups, steps, numbers, starts, took, waited, ended = (
        body.columns
    )
    ranks, attempts, steps, numbers = map(_sums, (ranks, attempts, steps, numbers))
    begun_us = [body.origin_us + start for start in _sums(starts)]
    indices = kinds, names, groups
    _check((ranks, attempts, steps, numbers, *indices, body.groups, took, waited), begun_us, body)
    rows = zip(
        ranks, attempts, kinds, names, groups, steps, numbers, begun_us, took, waited, ended,
        strict=True,
    )  # fmt: skip
    words, known, node = body.words, body.groups, body.node
    spans = [
        Span(
            rank=rank,
            attempt=attempt,
            node=node,
            kind=words[kind],
            name=words[name],
            group=known[group],
            step=step,
            start_s=at_us / 1e6,
            took_s=took_us / 1e6,
            waited_s=waited_us / 1e6,
            number=number,
            ended=bool(end),
        )
        for rank, attempt, kind, name, group, step, number, at_us, took_us, waited_us, end in rows
    ]
    return Block(
        job=body.job,
        node=node,
        submitted_s=body.submitted_s,
        error_s=body.error_s,
        wall_s=body.wall_s,
        dropped=body.dropped,
        whole=body.whole,
        spans=spans,
    )


MOST: Final = (*[2**31 - 1] * 2, *[2**32 - 1] * 2, *[2**31 - 1] * 3, 2**64 - 1, *[2**53] * 2)
"""Of ranks, attempts, steps, numbers, places of words and groups, groups, and microseconds: what
the tables have room for."""
LAST_S: Final = 253_402_300_799.0
"""Of year 9999, the last that has a date."""


def _check(columns: Sequence[Sequence[int]], begun_us: Sequence[int], body: _Body) -> None:
    """Raises `NoBlock`: anybody may write to a Redis."""
    for column, most in zip(columns, MOST, strict=True):
        if column and not (min(column) >= 0 and max(column) <= most):
            raise NoBlock("it has numbers that no span has")
    first_s, last_s = min(begun_us, default=0) / 1e6, max(begun_us, default=0) / 1e6
    times = (body.submitted_s, body.error_s, body.wall_s, first_s, last_s)
    if body.dropped < 0 or not all(abs(each) <= LAST_S for each in times):
        raise NoBlock("it has times that there are not")


def _numbered(values: Iterable[T]) -> dict[T, int]:
    return {value: number for number, value in enumerate(dict.fromkeys(values))}


def _steps(values: Sequence[int]) -> list[int]:
    """Each but the first by its difference to the one before."""
    return [value - before for before, value in zip([0, *values], values, strict=False)]


def _sums(steps: Sequence[int]) -> list[int]:
    return list(accumulate(steps))

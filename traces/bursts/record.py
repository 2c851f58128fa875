"""A burst as bytes: a head, then one column a counter, as differences of varying length, packed.

Written by a node's sampler, kept by the driver as it came, read by whoever shows it. Pure.
"""

import struct
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

MAGIC: Final = b"HFBU"
VERSION: Final = 1
HEAD: Final = struct.Struct("<4sHHI")
"""magic, version, octets of what is said, and the CRC-32 of all that follows."""
MOST_RAILS, MOST_SECONDS = 8, 10.0
MOST_SAMPLES = 20_000
LARGEST_BYTES = 900_000
"""Of a record: it goes in one frame. A rail that moves less than 128 MiB a millisecond each way
takes at most 100 KB in ten seconds, errors and all (tests/traces count it)."""
LARGEST_OPENED = 16 << 20
COUNTERS = ("received", "sent", "errors", "drops")


class NoBurst(ValueError):
    """These bytes are no burst that can be read; the message says why."""


class Rail(msgspec.Struct, frozen=True, kw_only=True):
    """A NIC or RDMA port; of each counter what it grew by from one sample to the next."""

    name: str
    received: list[int]  # bytes
    sent: list[int]
    errors: list[int]
    drops: list[int]


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """What a sampler saw. `at_us`: when each sample was taken, since the first."""

    node: str
    seconds: float
    missed: int  # milliseconds without a look of their own
    cpu_s: float  # that the sampler took
    degraded: str  # what it could not do, in a sentence; "" for nothing
    at_us: list[int]
    rails: list[Rail]


class _Said(msgspec.Struct, frozen=True, array_like=True):
    node: str
    seconds: float
    missed: int
    cpu_s: float
    degraded: str
    samples: int
    rails: list[str]


def encode(burst: Burst) -> bytes:
    """As few octets as that takes."""
    names = [rail.name for rail in burst.rails]
    said = msgspec.msgpack.encode(
        _Said(
            burst.node,
            burst.seconds,
            burst.missed,
            burst.cpu_s,
            burst.degraded,
            len(burst.at_us),
            names,
        )
    )
    columns = bytearray(_varints(b - a for a, b in pairwise(burst.at_us)))
    for rail in burst.rails:
        for name in COUNTERS:
            columns += _varints(getattr(rail, name))
    body = said + zlib.compress(bytes(columns), 6)
    return HEAD.pack(MAGIC, VERSION, len(said), zlib.crc32(body)) + body


def decode(data: bytes) -> Burst:
    """Raises `NoBurst`, whatever the bytes are."""
    said, columns = _opened(data)
    gaps = max(0, said.samples - 1)
    numbers = _numbers(columns, gaps * (1 + len(COUNTERS) * len(said.rails)))
    at_us = [0] if said.samples else []
    for gap in numbers[:gaps]:
        at_us.append(at_us[-1] + gap)
    each = iter(range(gaps, len(numbers) + 1, gaps or 1))
    rails = [
        Rail(name=name, **{what: _column(numbers, next(each, 0), gaps) for what in COUNTERS})
        for name in said.rails
    ]
    return Burst(
        node=said.node,
        seconds=said.seconds,
        missed=said.missed,
        cpu_s=said.cpu_s,
        degraded=said.degraded,
        at_us=at_us,
        rails=rails,
    )


def _opened(data: bytes) -> tuple[_Said, bytes]:
    if len(data) < HEAD.size or len(data) > LARGEST_BYTES:
        raise NoBurst(f"has {len(data):,} octets, and a burst {HEAD.size} to {LARGEST_BYTES:,}")
    magic, version, length, crc = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise NoBurst("does not begin as a burst does")
    if version != VERSION:
        raise NoBurst(f"is of version {version}, and {VERSION} is read here")
    body = data[HEAD.size :]
    if zlib.crc32(body) != crc:
        raise NoBurst("is torn: its checksum is another")
    try:
        said = msgspec.msgpack.decode(body[:length], type=_Said)
        opening = zlib.decompressobj()
        columns = opening.decompress(body[length:], LARGEST_OPENED)
    except (msgspec.DecodeError, UnicodeDecodeError, zlib.error) as error:
        raise NoBurst(f"cannot be read: {error}") from error
    if not opening.eof or not 0 <= said.samples <= MOST_SAMPLES or len(said.rails) > MOST_RAILS:
        raise NoBurst("says that it has more than a burst can have")
    return said, columns


def _column(numbers: list[int], at: int, length: int) -> list[int]:
    return numbers[at : at + length] if length else []


def _varints(numbers: Iterable[int]) -> bytes:
    """Seven bits an octet, the lowest first. A counter that was set back has grown by nothing."""
    out = bytearray()
    for number in numbers:
        left = max(0, number)
        while left > 0x7F:
            out.append(left & 0x7F | 0x80)
            left >>= 7
        out.append(left)
    return bytes(out)


def _numbers(data: bytes, wanted: int) -> list[int]:
    numbers: list[int] = []
    value = shift = 0
    for octet in data:
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            numbers.append(value)
            value = shift = 0
            if len(numbers) > wanted:
                break
        elif shift > 63:
            raise NoBurst("has a number that no counter can have")
    if len(numbers) != wanted or shift:
        raise NoBurst(f"has {len(numbers):,} numbers in place of {wanted:,}")
    return numbers

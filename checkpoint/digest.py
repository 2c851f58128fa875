"""The checksum of a snapshot: XXH3 (64 bit) of the seal and of the checksums of its data's pieces.

Pieces, so that several threads can take it while they copy. Used by ranks (seal, restore) and by
agents (upload). Must not load torch.
"""

from collections.abc import Iterable

import msgspec
import xxhash

from holdfast.checkpoint.threads import by_threads
from holdfast.checkpoint.words import Seal

PIECE_BYTES = 16 << 20
"""Of the file, from its start; the last one is what is left."""

CHUNK_BYTES = 1 << 20
"""Hashed, or copied and hashed, at once: what was just copied is still in the core's cache."""


def combined(seal: Seal, pieces: Iterable[bytes]) -> str:
    """The checksum in hexadecimal, from those of all pieces in order."""
    state = xxhash.xxh3_64(msgspec.json.encode(seal))
    for piece in pieces:
        state.update(piece)
    return state.hexdigest()


def of_all(seal: Seal, data: memoryview, *, threads: int) -> str:
    """The checksum of data that is there in full, taken by so many threads, this one among them."""
    pieces = range(0, len(data), PIECE_BYTES)
    found = [b""] * len(pieces)

    def take(number: int) -> None:
        state = xxhash.xxh3_64(data[pieces[number] : pieces[number] + PIECE_BYTES])
        found[number] = state.digest()

    by_threads(len(pieces), take, threads=threads, name="digest")
    return combined(seal, found)


class Running:
    """Takes the checksum of data that comes in order."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._pieces: list[bytes] = []
        self._state = xxhash.xxh3_64()
        self._left = PIECE_BYTES

    def update(self, data: memoryview) -> None:
        while len(data) >= self._left:
            self._state.update(data[: self._left])
            data = data[self._left :]
            self._end_piece()
        self._state.update(data)
        self._left -= len(data)

    def hexdigest(self) -> str:
        """Of all that has come."""
        rest = [] if self._left == PIECE_BYTES else [self._state.digest()]
        return combined(self._seal, [*self._pieces, *rest])

    def _end_piece(self) -> None:
        self._pieces.append(self._state.digest())
        self._state.reset()
        self._left = PIECE_BYTES

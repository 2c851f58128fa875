"""Copying tensors into a slot and taking its checksum on the way: each byte is read once.

Used by the checkpointer in ranks only, in the thread that saves or in one of its own. Must not use
torch's own threads for it: their pool waits for all of them wherever another process has a core.
"""

import ctypes
from collections.abc import Mapping

import msgspec
import torch
import xxhash

from holdfast.checkpoint.digest import CHUNK_BYTES, PIECE_BYTES, combined
from holdfast.checkpoint.layout import Layout
from holdfast.checkpoint.threads import by_threads
from holdfast.checkpoint.words import Seal


class Part(msgspec.Struct, frozen=True, gc=False):
    """What of a piece is one tensor's: [begin, end) of the file, from `offset` of the tensor on."""

    name: str
    begin: int
    end: int
    offset: int


def pieces_of(layout: Layout) -> list[list[Part]]:
    """The file's pieces; the header is a part without a name."""
    spans = sorted((placed.begin, placed.end, name) for name, placed in layout.tensors.items())
    pieces: list[list[Part]] = [[] for _ in range(0, layout.size_bytes, PIECE_BYTES)]
    for begin, end, name in ((0, len(layout.head), ""), *spans):
        at = begin
        while at < end:
            number = at // PIECE_BYTES
            until = min(end, (number + 1) * PIECE_BYTES)
            pieces[number].append(Part(name, at, until, at - begin))
            at = until
    return pieces


def movable(tensor: torch.Tensor) -> bool:
    """Whether its bytes lie in the host's memory as they will in the slot."""
    return tensor.device.type == "cpu" and tensor.is_contiguous()


class Copy:
    """The copy of `tensors` into `memory`, which has the header and all other tensors already."""

    def __init__(
        self, memory: memoryview, pieces: list[list[Part]], tensors: Mapping[str, torch.Tensor]
    ) -> None:
        self._memory = memory
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._pieces = pieces
        self._tensors = tensors  # kept: their memory is read by address
        self._sources = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        self._digests: list[bytes] = [b""] * len(pieces)

    def run(self, seal: Seal, *, threads: int) -> str:
        """Copy with so many threads, this one among them; the checksum under that seal."""
        by_threads(len(self._pieces), self._work, threads=threads, name="copy")
        return combined(seal, self._digests)

    def _work(self, number: int) -> None:
        self._digests[number] = self._copy(self._pieces[number])

    def _copy(self, parts: list[Part]) -> bytes:
        state = xxhash.xxh3_64()
        for part in parts:
            source = self._sources.get(part.name)
            for at in range(part.begin, part.end, CHUNK_BYTES):
                end = min(at + CHUNK_BYTES, part.end)
                if source is not None:
                    there = source + part.offset + at - part.begin
                    ctypes.memmove(self._base + at, there, end - at)
                state.update(self._memory[at:end])
        return state.digest()

"""How fast does this node read from its own disk what it has just written, and is it the same.

Memory and caches are passed by where the file system can; see `scratch`.
"""

import errno
import mmap
import os

from holdfast.diagnostics.probes import Measured
from holdfast.diagnostics.probes.scratch import PIECE_BYTES, Scratch, measured
from holdfast.protocol.messages import DiagnosticOrder


class _Read:
    def __init__(self) -> None:
        self._read = mmap.mmap(-1, PIECE_BYTES)

    def once(self, scratch: Scratch, begin: int) -> None:
        os.posix_fadvise(scratch.fd, begin, PIECE_BYTES, os.POSIX_FADV_DONTNEED)
        if os.preadv(scratch.fd, [self._read], begin) < PIECE_BYTES:
            raise OSError(errno.EIO, "a part of what was written is not there")

    def right(self, scratch: Scratch) -> bool:
        return self._read[:] == scratch.piece[:]


def run(order: DiagnosticOrder, node: str) -> Measured:
    """MB/s by the fastest of its pieces, with what others wrote and read meanwhile."""
    return measured(order, _Read())

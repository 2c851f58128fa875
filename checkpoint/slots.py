"""A rank's memory slots: mapped files in the node's tmpfs, which outlive the rank.

Used by the rank (claims, fills, seals, reads back) and by the node's agent (uploads, fills early).
A slot is `slot-K.data`; it counts only with its seal `slot-K.seal`, a small file put in place by
rename; `slot-K.sum` has the checksum of both. Whoever reads or writes a slot holds a lock of the
kernel's on it, so that a killed holder holds nothing. Must not load torch.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from holdfast.checkpoint import pages, words
from holdfast.checkpoint.words import Seal
from holdfast.kit.files import new_file

SPARE_BYTES = 256 << 10
"""Left free beside the slots: a snapshot without room for its seal would be none."""

_FULL = {errno.ENOSPC, errno.ENOMEM}


class NoRoom(Exception):
    """The node's memory folder is full; the message says how much was wanted and is there."""


class Slot:
    """One slot. Its files may or may not be there."""

    def __init__(self, folder: Path, number: int) -> None:
        self.data = folder / f"slot-{number}.data"
        self._seal = folder / f"slot-{number}.seal"
        self._sum = folder / f"slot-{number}.sum"
        self._read: tuple[tuple[int, int, int], Seal | None] | None = None  # of the file as it was

    def __repr__(self) -> str:
        return f"Slot({self.data})"

    @property
    def room_bytes(self) -> int:
        try:
            return self.data.stat().st_size
        except FileNotFoundError:
            return 0

    def make(self, size_bytes: int) -> None:
        """Have a data file; a new one of this size, all its memory given out. Raises `NoRoom`."""
        if self.data.exists():
            return
        try:
            self.data.parent.mkdir(parents=True, exist_ok=True)
            with new_file(self.data, mode=0o600) as fd:
                if size_bytes:
                    self._allocate(fd, size_bytes)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise no_room(self.data.parent, size_bytes) from error

    def grow(self, fd: int, size_bytes: int) -> None:
        """Have room for so much, where it is. Raises `NoRoom` with the file as it was.

        For the rank alone, which holds the lock by `fd` and has broken the seal.
        """
        if os.fstat(fd).st_size < size_bytes:
            self._allocate(fd, size_bytes)

    def empty(self, fd: int) -> None:
        """Give its memory back, for other slots. For the rank alone, as `grow`."""
        os.ftruncate(fd, 0)

    def _allocate(self, fd: int, size_bytes: int) -> None:
        wanted = size_bytes - os.fstat(fd).st_size
        if wanted + SPARE_BYTES > free_bytes(self.data.parent):
            raise no_room(self.data.parent, size_bytes)
        try:
            # Not ftruncate: a hole would end the rank by SIGBUS when the tmpfs is full.
            os.posix_fallocate(fd, 0, size_bytes)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise no_room(self.data.parent, size_bytes) from error

    @contextmanager
    def locked(self, *, exclusive: bool) -> Iterator[int | None]:
        """A file descriptor of the data, locked; None where another holds it or it is not there.

        Shared to read, exclusive to write. Never waits.
        """
        holder = os.getpid()
        try:
            fd = os.open(self.data, os.O_RDWR)
        except FileNotFoundError:
            yield None
            return
        try:
            yield fd if self._take(fd, exclusive=exclusive) else None
        finally:
            # A child of the rank may have inherited it: closing alone would not free the lock. And
            # a child that drops what it inherited must not free its parent's.
            if os.getpid() == holder:
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _take(self, fd: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            there = self.data.stat()
        except FileNotFoundError:
            return False
        # Else somebody has put another file in its place since it was opened.
        return os.fstat(fd).st_ino == there.st_ino

    def seal(self) -> Seal | None:
        """What the slot holds, or None while it is not sealed, or its seal is not what was put."""
        try:
            info = self._seal.stat()
        except FileNotFoundError:
            return None
        mark = (info.st_ino, info.st_mtime_ns, info.st_size)
        if self._read is None or self._read[0] != mark:
            self._read = mark, words.read(self._seal, words.SEAL)
        return self._read[1]

    def put_seal(self, seal: Seal, xxh3: str) -> None:
        """Say that the slot is whole, with its checksum. Raises `NoRoom`."""
        try:
            words.write(self._sum, words.Sum(seal.epoch, seal.step, xxh3))
            words.write(self._seal, seal)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise no_room(self._seal.parent, len(seal.tree)) from error

    @property
    def unreadable(self) -> bool:
        """Whether there is a seal that is not what was put: the slot holds nothing then."""
        return self.seal() is None and self._seal.exists()

    def free_unreadable(self) -> bool:
        """Break a seal that cannot be believed, unless the rank is just writing; whether it was."""
        if not self.unreadable:
            return False
        with self.locked(exclusive=False) as fd:
            if fd is None or not self.unreadable:
                return False
            self.break_seal()
            return True

    def break_seal(self) -> None:
        """Say that the slot holds nothing: before it is written, or when it proved wrong."""
        self._seal.unlink(missing_ok=True)
        self._sum.unlink(missing_ok=True)

    def known_sum(self, seal: Seal) -> str | None:
        """The checksum that was taken of this seal's content, if any."""
        known = words.read(self._sum, words.SUM)
        return known.xxh3 if known and (known.epoch, known.step) == seal.age else None

    def is_known(self, fd: int, seal: Seal) -> bool:
        """Whether its checksum is there, and its header the one that was sealed."""
        if self.known_sum(seal) is None or os.fstat(fd).st_size < seal.used_bytes:
            return False
        return self.header(fd, seal) is not None

    def header(self, fd: int, seal: Seal) -> bytes | None:
        """The header, or None where it is not the one that was sealed."""
        head = os.pread(fd, seal.head_bytes, 0)
        return head if xxhash.xxh3_64_hexdigest(head) == seal.head_xxh3 else None

    def contents(self, fd: int, seal: Seal) -> memoryview | None:
        """What the seal speaks for, mapped as long as anything holds a piece of it.

        None where the header is not the one that was sealed, or the data is cut.
        """
        if os.fstat(fd).st_size < seal.used_bytes or self.header(fd, seal) is None:
            return None
        memory = mmap.mmap(fd, 0, mmap.MAP_SHARED)
        pages.enter(memory, to_write=False)
        return memoryview(memory)[: seal.used_bytes]


@contextmanager
def mapped(fd: int, *, writable: bool) -> Iterator[memoryview]:
    """The whole file as memory, for the time of the block."""
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    area = mmap.mmap(fd, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, access)
    view = memoryview(area)
    try:
        yield view
    finally:
        # An exception on its way still holds pieces of it: it goes when they do.
        with suppress(BufferError):
            view.release()
            area.close()


def free_bytes(folder: Path) -> int:
    """What the file system of a folder has left for us."""
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def why_not(error: OSError) -> str:
    """Why a small file beside the slots could not be written. Never in the words of a full disk,
    which whoever reads a rank's log would look for.
    """
    return "the node's memory folder is full" if error.errno in _FULL else str(error)


def no_room(folder: Path, size_bytes: int) -> NoRoom:
    """The error where so much is not to be had there, with what is."""
    return NoRoom(
        f"memory slots: {size_bytes / 1e6:.1f} MB wanted in {folder}, "
        f"{free_bytes(folder) / 1e6:.1f} MB free. "
        "Give the node's memory folder more room, or save less."
    )

"""A rank's memory slots: four mapped files in the node's tmpfs, which outlive the rank.

Used by the rank (claims, fills, seals, reads back) and by the node's agent (hashes, drains, fills
early). A slot is `slot-K.data`; it counts only with its seal `slot-K.seal`, a small file put in
place by rename; `slot-K.sum` has the agent's checksum of both. Whoever reads or writes a slot holds
a lock of the kernel's on it, so that a killed holder holds nothing. Must not load torch.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import xxhash

from holdfast.kit.files import beside, write_atomic
from holdfast.protocol.topology import Topology

T = TypeVar("T")

SLOTS = 4
"""One being written, two newest (the older of them is sealed by all), one being drained."""

HASH_CHUNK_BYTES = 16 << 20


class NoRoom(Exception):
    """The node's memory folder is full; the message says how much was wanted and is there."""


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed slot holds. `tree` is the state's structure, with all but its tensors."""

    job: str
    epoch: int
    step: int
    rank: int
    world_size: int
    topology: Topology
    used_bytes: int
    tree: msgspec.Raw

    @property
    def age(self) -> tuple[int, int]:
        """Order of seals: later epochs know the true history, then later steps."""
        return (self.epoch, self.step)


class _Sum(msgspec.Struct, frozen=True):
    epoch: int
    step: int
    xxh3: str


class _Drained(msgspec.Struct, frozen=True):
    epoch: int
    step: int


class _Skipped(msgspec.Struct, frozen=True):
    epoch: int
    count: int
    why: str


# Made at import: where two threads decode a Struct for the first time at one moment, msgspec 0.22
# shows the second one a type whose fields are not known yet, and the process ends by SIGSEGV.
_SEAL = msgspec.json.Decoder(Seal)
_SUM = msgspec.json.Decoder(_Sum)
_DRAINED = msgspec.json.Decoder(_Drained)
_SKIPPED = msgspec.json.Decoder(_Skipped)
_ROOM = msgspec.json.Decoder(int)


class Slot:
    """One slot. Its files may or may not be there."""

    def __init__(self, folder: Path, number: int) -> None:
        self.data = folder / f"slot-{number}.data"
        self._seal = folder / f"slot-{number}.seal"
        self._sum = folder / f"slot-{number}.sum"
        self._read: tuple[tuple[int, int, int], Seal] | None = None  # of the seal file as it was

    def __repr__(self) -> str:
        return f"Slot({self.data})"

    @property
    def room_bytes(self) -> int:
        try:
            return self.data.stat().st_size
        except FileNotFoundError:
            return 0

    def make_room(self, size_bytes: int, *, replace: bool) -> None:
        """Have a data file of this size, all its memory given out. Raises `NoRoom`.

        With `replace` one that is too small gives way to it (only the rank may do that, once the
        seal is broken); without it, one that is there stays as it is.
        """
        if self.room_bytes >= size_bytes or (self.data.exists() and not replace):
            return
        self.data.parent.mkdir(parents=True, exist_ok=True)
        new = beside(self.data)
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            # Not ftruncate: a hole would end the rank by SIGBUS when the tmpfs is full.
            os.posix_fallocate(fd, 0, size_bytes)
            if replace:
                new.rename(self.data)
            else:
                with suppress(FileExistsError):
                    self.data.hardlink_to(new)
        except OSError as error:
            raise _no_room(error, self.data.parent, size_bytes) from error
        finally:
            os.close(fd)
            new.unlink(missing_ok=True)

    @contextmanager
    def locked(self, *, exclusive: bool) -> Iterator[int | None]:
        """A file descriptor of the data, locked; None where another holds it or it is not there.

        Shared to read, exclusive to write. Never waits.
        """
        try:
            fd = os.open(self.data, os.O_RDWR)
        except FileNotFoundError:
            yield None
            return
        try:
            yield fd if self._take(fd, exclusive=exclusive) else None
        finally:
            # A child of the rank may have inherited it: closing alone would not free the lock.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _take(self, fd: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # Else the rank has put a larger file in its place since it was opened.
        return os.fstat(fd).st_ino == self.data.stat().st_ino

    def seal(self) -> Seal | None:
        """What the slot holds, or None while it is not sealed."""
        try:
            info = self._seal.stat()
            mark = (info.st_ino, info.st_mtime_ns, info.st_size)
            if self._read is None or self._read[0] != mark:
                self._read = mark, _SEAL.decode(self._seal.read_bytes())
            return self._read[1]
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def put_seal(self, seal: Seal) -> None:
        """Say that the slot is whole. Raises `NoRoom`."""
        data = msgspec.json.encode(seal)
        try:
            write_atomic(self._seal, data, mode=0o600)
        except OSError as error:
            raise _no_room(error, self._seal.parent, len(data)) from error

    def break_seal(self) -> None:
        """Say that the slot holds nothing: before it is written, or when it proved wrong."""
        self._seal.unlink(missing_ok=True)
        self._sum.unlink(missing_ok=True)

    def known_sum(self, seal: Seal) -> str | None:
        """The checksum that was taken of this seal's content, if any."""
        try:
            known = _SUM.decode(self._sum.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return known.xxh3 if (known.epoch, known.step) == seal.age else None

    def confirm(self, fd: int, seal: Seal) -> bool:
        """Whether the content still has its checksum; the first to ask takes it. Agents only."""
        known, now = self.known_sum(seal), self.digest(fd, seal)
        if known is None:
            record = _Sum(seal.epoch, seal.step, now)
            write_atomic(self._sum, msgspec.json.encode(record), mode=0o600)
        return known in (None, now)

    def digest(self, fd: int, seal: Seal) -> str:
        """XXH3 (64 bit, hexadecimal) of the seal and of the data it speaks for."""
        state = xxhash.xxh3_64(msgspec.json.encode(seal))
        with mapped(fd, writable=False) as view:
            for at in range(0, seal.used_bytes, HASH_CHUNK_BYTES):
                state.update(view[at : min(at + HASH_CHUNK_BYTES, seal.used_bytes)])
        return state.hexdigest()


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


class SlotFolder:
    """All slots of one rank, and the few words that rank and agent leave each other there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slots = tuple(Slot(folder, number) for number in range(SLOTS))

    def sealed(self) -> list[tuple[Slot, Seal]]:
        """The slots that hold something, newest first."""
        found = [(slot, seal) for slot in self.slots if (seal := slot.seal())]
        return sorted(found, key=lambda pair: pair[1].age, reverse=True)

    def find(self, *, step: int, epoch: int) -> tuple[Slot, Seal] | None:
        """The slot with the snapshot of this step and epoch."""
        wanted = (epoch, step)
        return next((pair for pair in self.sealed() if pair[1].age == wanted), None)

    def room_bytes(self) -> int:
        """What one slot needs, as far as is known: the largest there is, or what was asked for."""
        asked = self._read("wanted", _ROOM) or 0
        return max(asked, *(slot.room_bytes for slot in self.slots))

    def ask_room(self, size_bytes: int) -> None:
        """Tell the agent how large slots should be, so that it makes and fills them early."""
        self._write("wanted", size_bytes)

    def drained(self) -> tuple[int, int]:
        """(epoch, step) of the last snapshot that the agent has dealt with for the store."""
        mark = self._read("drained", _DRAINED)
        return (mark.epoch, mark.step) if mark else (-1, -1)

    def put_drained(self, *, epoch: int, step: int) -> None:
        self._write("drained", _Drained(epoch, step))

    def skipped(self, epoch: int) -> tuple[int, str]:
        """How many saves the rank refused in this epoch, and why the last one."""
        record = self._read("skipped", _SKIPPED)
        return (record.count, record.why) if record and record.epoch == epoch else (0, "")

    def put_skipped(self, *, epoch: int, count: int, why: str) -> None:
        self._write("skipped", _Skipped(epoch, count, why))

    def _read(self, name: str, words: msgspec.json.Decoder[T]) -> T | None:
        try:
            return words.decode((self.folder / name).read_bytes())
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _write(self, name: str, value: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder / name, msgspec.json.encode(value), mode=0o600)


def _no_room(error: OSError, folder: Path, size_bytes: int) -> Exception:
    if error.errno not in {errno.ENOSPC, errno.ENOMEM}:
        return error
    info = os.statvfs(folder)
    free = info.f_bavail * info.f_frsize
    return NoRoom(
        f"memory slots: {size_bytes / 1e6:.1f} MB wanted in {folder}, {free / 1e6:.1f} MB free. "
        "Give the node's memory folder more room, or save less."
    )

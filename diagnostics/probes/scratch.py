"""A file on the node's own disk, for the tests of that disk: bounded in size and in time.

Called by `disk_write` and `disk_read`. It has no name, so that nothing of it is left whatever ends
the test. The fastest piece counts: others wait for a processor as well, and at a load of 22 their
median differed by 15 to 23 times from run to run, the fastest by 2.3 (nine of ten to one of ten).
What the device moved for all meanwhile is its speed, too.
"""

import errno
import fcntl
import mmap
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import msgspec

from holdfast.diagnostics.probes import Measured, too_little
from holdfast.diagnostics.settings import from_environment
from holdfast.protocol.messages import DiagnosticOrder

PIECE_BYTES = 4 << 20
MOST_BYTES = 64 << 20
SPARE = 4
"""Times what is written that has to be free: a test is no reason for a disk to become full."""
SHARE = 0.25
"""Of the time box, for each of both: the file is made, and then it is measured."""
IN_MEMORY = ("tmpfs", "ramfs")
MOST_BESIDE = 0.5
"""Of what is moved here: where others move more meanwhile it is no measure. Beside three writers a
disk wrote 335 to 1,395 MB/s here that had written 1,891 to 4,823."""
SECTOR_BYTES = 512
"""As /sys counts, whatever the device has (Documentation/block/stat.rst)."""


class Scratch(msgspec.Struct, frozen=True):
    """An open file, with one piece of what was written to it as often as it has `pieces`."""

    fd: int
    piece: mmap.mmap
    pieces: int
    uncached: str  # why what is measured may be memory; "": it is the disk

    def each(self, for_s: float) -> Iterator[int]:
        """Where its pieces begin, until the time is over."""
        end_s = time.perf_counter() + for_s
        for number in range(self.pieces):
            if number and time.perf_counter() > end_s:
                return
            yield number * PIECE_BYTES

    def write(self, begin: int) -> None:
        """The piece that begins there, to the disk. Raises `OSError`."""
        if os.pwrite(self.fd, self.piece, begin) < PIECE_BYTES:  # a part: there was no more room
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fdatasync(self.fd)


class Work(Protocol):
    """What is measured."""

    def once(self, scratch: Scratch, begin: int) -> None:
        """With the piece that begins there. Raises `OSError`."""

    def right(self, scratch: Scratch) -> bool:
        """Whether the last one went well; the time that takes does not count."""


def measured(order: DiagnosticOrder, work: Work) -> Measured:
    """The speed of `work`, in MB/s."""
    folder = from_environment().scratch
    try:
        device = folder.stat().st_dev
        if (kind := file_system(os.major(device), os.minor(device))) in IN_MEMORY:
            return Measured(ok=True, detail=f"{folder.absolute()}: no disk, {kind} is memory")
        room = os.statvfs(folder)
        if (free := room.f_bavail * room.f_frsize) < SPARE * MOST_BYTES:
            return too_little(f"the disk of {folder.absolute()}", free, SPARE * MOST_BYTES)
        with a_file(folder, SHARE * order.time_box_s) as scratch:
            return _timed(scratch, work, SHARE * order.time_box_s)
    except OSError as error:
        return Measured(ok=None, detail=f"{folder.absolute()}: {error.strerror}")


@contextmanager
def a_file(folder: Path, for_s: float, most_bytes: int = MOST_BYTES) -> Iterator[Scratch]:
    """As large as could be written and synchronised in the time. Raises `OSError`."""
    with tempfile.TemporaryFile(dir=folder) as file, mmap.mmap(-1, PIECE_BYTES) as piece:
        piece[:] = os.urandom(PIECE_BYTES)
        cached = _around_the_cache(file)
        whole, pieces = Scratch(file.fileno(), piece, most_bytes // PIECE_BYTES, cached), 0
        for begin in whole.each(for_s):
            whole.write(begin)
            pieces += 1
        yield msgspec.structs.replace(whole, pieces=pieces)


def _around_the_cache(file: IO[bytes]) -> str:
    """Have it read and written past memory; else why that cannot be."""
    fd = file.fileno()
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:
        return "its file system has no way past its cache"
    return ""


def file_system(major: int, minor: int, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Its kind, as it is mounted; "" where that is not said."""
    fields = (line.split() for line in mounts.read_text(errors="replace").splitlines())
    mine = (each for each in fields if each[2] == f"{major}:{minor}")
    return next((each[each.index("-") + 1] for each in mine), "")


def _timed(scratch: Scratch, work: Work, for_s: float) -> Measured:
    device, spans = os.fstat(scratch.fd).st_dev, []
    before = moved_bytes(os.major(device), os.minor(device))
    for begin in scratch.each(for_s):
        begin_s = time.perf_counter()
        work.once(scratch, begin)
        spans.append(time.perf_counter() - begin_s)
        if not work.right(scratch):
            return Measured(ok=False, wrong=True, detail="what was read is not what was written")
    moved = moved_bytes(os.major(device), os.minor(device)) - before
    speed = PIECE_BYTES / min(spans) / 1e6
    return told(speed, moved / (len(spans) * PIECE_BYTES), scratch.uncached)


def told(speed: float, of_all: float, uncached: str) -> Measured:
    """Its speed, with what others had of it: `of_all` is what the device moved, in times of what
    was moved here. No speed where it may be that of memory, or others had most of the disk: that
    is told, and no measure."""
    beside = max(0.0, of_all - 1)
    if uncached or beside > MOST_BESIDE:
        why = uncached or f"others moved {beside:.1f} times as much meanwhile"
        return Measured(ok=True, detail=f"{speed:.0f} MB/s, not compared: {why}")
    detail = f"{speed:.0f} MB/s here, and others {speed * beside:.0f} MB/s"
    return Measured(ok=True, value=speed * (1 + beside), detail=detail)


def moved_bytes(major: int, minor: int, devices: Path = Path("/sys/dev/block")) -> int:
    """What the whole device has read and written since it is there; 0 where that is not told."""
    device = devices / f"{major}:{minor}"
    stat = device / "../stat" if (device / "partition").exists() else device / "stat"
    try:
        counts = stat.read_text().split()
        return (int(counts[2]) + int(counts[6])) * SECTOR_BYTES
    except (OSError, ValueError, IndexError):
        return 0

"""New whole lines of a growing file, and new records of the kernel's log. Used for the latter."""

import os
from pathlib import Path

from holdfast.daemon.samplers.readings import NOT_THERE, Readings

MAX_READ_BYTES = 1 << 16
"""Read at most this much in one go: a rank that prints without end must not stop the daemon."""


LARGEST_LOOK = 1_000
"""Records of the kernel log in one look."""


class _NoMore(Exception):
    """Nothing more can be read now."""


class Tail:
    """Follows one file from its end; a file that is cut or replaced is followed from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode: int | None = None
        self._at = 0
        self._rest = b""
        self._first = True
        self._files = Readings("tail")

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._files.unreadable_now

    def lines(self) -> list[str]:
        """Lines that have been completed since the last call; none where there is no file."""
        try:
            return self._read()
        except OSError as error:
            if error.errno not in NOT_THERE:
                self._files.unreadable(self.path, error.strerror or type(error).__name__)
            return []
        finally:
            self._first = False

    def _read(self) -> list[str]:
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return self._lines(fd)
        finally:
            os.close(fd)

    def _lines(self, fd: int) -> list[str]:
        seen = os.fstat(fd)
        if seen.st_ino != self._inode or seen.st_size < self._at:
            self._at = seen.st_size if self._first else 0
            self._inode, self._rest = seen.st_ino, b""
        data = os.pread(fd, MAX_READ_BYTES, self._at)
        self._at += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-MAX_READ_BYTES:]
        return [line.decode(errors="replace") for line in whole]


class KernelMessages:
    """New records of /dev/kmsg, for a node that is this machine; none where it is not allowed.

    `old_too`: begin with the oldest that the kernel still has and nobody took off its log with
    `dmesg --clear`, which is what SEEK_DATA means there.
    """

    def __init__(self, device: Path = Path("/dev/kmsg"), *, old_too: bool = False) -> None:
        self._device, self._files = device, Readings("kernel log")
        self._fd: int | None = None
        try:
            self._fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_DATA if old_too else os.SEEK_END)
        except OSError as error:
            self._files.unreadable(device, error.strerror or type(error).__name__)

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._files.unreadable_now

    def lines(self) -> list[str]:
        """Each read gives one record, see Documentation/ABI/testing/dev-kmsg."""
        found: list[str] = []
        for _ in range(LARGEST_LOOK):
            try:
                found.append(self._record())
            except BrokenPipeError:
                continue  # records were overwritten before they were read; the next one follows
            except (BlockingIOError, _NoMore):
                break
        return found

    def _record(self) -> str:
        """The next one. Raises `BlockingIOError` and `BrokenPipeError` as the kernel does."""
        if self._fd is None:
            raise _NoMore
        try:
            record = os.read(self._fd, 8_192)
        except (BlockingIOError, BrokenPipeError):
            raise
        except OSError as error:
            self._files.unreadable(self._device, error.strerror or type(error).__name__)
            raise _NoMore from error
        if not record:
            raise _NoMore  # a device has no end: this is a file
        return record.decode(errors="replace").rstrip()

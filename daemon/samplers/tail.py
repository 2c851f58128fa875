"""New whole lines of a growing file. Used for the kernel log and the ranks' stderr."""

import os
from pathlib import Path

MAX_READ_BYTES = 1 << 16
"""Read at most this much in one go: a rank that prints without end must not stop the daemon."""


class Tail:
    """Follows one file from its end; a file that is cut or replaced is followed from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode: int | None = None
        self._at = 0
        self._rest = b""
        self._first = True

    def lines(self) -> list[str]:
        """Lines that have been completed since the last call; none where there is no file."""
        try:
            with self.path.open("rb", buffering=0) as file:
                return self._read(file.fileno())
        except OSError:
            return []
        finally:
            self._first = False

    def _read(self, fd: int) -> list[str]:
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
        try:
            self._fd: int | None = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_DATA if old_too else os.SEEK_END)
        except OSError:
            self._fd = None

    def lines(self) -> list[str]:
        """Each read gives one record, see Documentation/ABI/testing/dev-kmsg."""
        found: list[str] = []
        while self._fd is not None and len(found) < 1_000:
            try:
                found.append(os.read(self._fd, 8_192).decode(errors="replace").rstrip())
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten before they were read; the next one follows
        return found

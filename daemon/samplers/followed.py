"""A growing file from a place in it to its end, in blocks of lines. Used for the output of ranks.

A flood is skipped, and counted: the first of it is given and the last, for a line that says why a
rank ends must not wait behind ten megabytes of others.
"""

import os
from pathlib import Path

from holdfast.daemon.samplers.readings import NOT_THERE, Readings

MAX_LINE_BYTES = 1 << 16
QUIET_LOOKS = 2
"""After so many without a word, what is there is a line: a process may end in the middle of one."""
LOOKS_BEHIND = 16
"""A file that is further ahead than so many looks can read (1.6 s of the daemon's) is a flood."""


class Followed:
    """One file. `read` is the place from which another would have to go on."""

    def __init__(self, path: Path, at: int) -> None:
        self.path = path
        self.skipped_bytes = 0
        self._at, self._rest, self._quiet, self._began = at, b"", 0, False
        self._files = Readings("outputs")

    @property
    def read(self) -> int:
        return self._at - len(self._rest)

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._files.unreadable_now

    @property
    def has_grown(self) -> bool:
        """Whether there is more than was read; of one that cannot be asked `block` says why."""
        try:
            return self.path.stat().st_size > self._at
        except OSError:
            return False

    def block(self, most: int) -> str:
        """Whole lines that were added, of `most` bytes in one look; "" for none, or no file.

        A bar of progress ends its lines by going back to their beginning: here with a newline, too.
        """
        try:
            data = self._new(most)
        except OSError as error:
            if error.errno not in NOT_THERE:
                self._files.unreadable(self.path, error.strerror or type(error).__name__)
            return ""
        self._quiet = 0 if data else self._quiet + 1
        return self._lines(data.replace(b"\r", b"\n"))

    def last_blocks(self, most: int) -> list[str]:
        """All that is left, for the last time: what stands behind the last end is a line, too."""
        blocks: list[str] = []
        at = -1
        while at != self._at:
            at = self._at
            blocks.append(self.block(most))
        whole, self._rest = self._rest, b""
        return [*blocks, whole.decode(errors="replace")]

    def _lines(self, data: bytes) -> str:
        whole, end, rest = (self._rest + data).rpartition(b"\n")
        if self._quiet >= QUIET_LOOKS or len(rest) > MAX_LINE_BYTES:
            whole, rest = whole + end + rest, b""
        self._rest = rest
        return whole.decode(errors="replace")

    def _new(self, most: int) -> bytes:
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._go_to(os.fstat(fd).st_size, most)
            data = os.pread(fd, most, self._at)
        finally:
            os.close(fd)
        self._files.readable(self.path)
        self._at += len(data)
        return data

    def _go_to(self, size: int, most: int) -> None:
        """Where the next look begins: at the start if somebody has cut it, behind a flood."""
        if size < self._at:
            self._at, self._rest, self._began = 0, b"", False
        if self._began and size - self._at > LOOKS_BEHIND * most:
            self.skipped_bytes += len(self._rest) + size - most - self._at
            self._at, self._rest = size - most, b""
        self._began = True

"""A growing file from a place in it to its end, in lines. Used for the output of ranks."""

import os
import re
from pathlib import Path

from holdfast.daemon.samplers.readings import NOT_THERE, Readings

MAX_READ_BYTES = 1 << 15
"""In one look: a rank that prints without end must not stop the daemon, and is caught up with."""
MAX_LINE_BYTES = 1 << 16
QUIET_LOOKS = 2
"""After so many without a word, what is there is a line: a process may end in the middle of one."""
_END = re.compile(rb"[\r\n]+")
"""A bar of progress ends its lines by going back to their beginning."""


class Followed:
    """One file. `read` is the place from which another would have to go on."""

    def __init__(self, path: Path, at: int) -> None:
        self.path = path
        self._at, self._rest, self._quiet = at, b"", 0
        self._files = Readings("outputs")

    @property
    def read(self) -> int:
        return self._at - len(self._rest)

    def lines(self) -> list[str]:
        """Lines that have been completed since the last call; none where there is no file."""
        try:
            data = self._new()
        except OSError as error:
            if error.errno not in NOT_THERE:
                self._files.unreadable(self.path, error.strerror or type(error).__name__)
            return []
        self._quiet = 0 if data else self._quiet + 1
        *whole, self._rest = _END.split(self._rest + data) if data else [self._rest]
        if self._quiet >= QUIET_LOOKS or len(self._rest) > MAX_LINE_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        return [line.decode(errors="replace") for line in whole if line]

    def last_lines(self) -> list[str]:
        """All that is left, for the last time: what stands behind the last end is a line, too."""
        lines: list[str] = []
        at = -1
        while at != self._at:
            at = self._at
            lines += self.lines()
        whole, self._rest = self._rest, b""
        return [*lines, whole.decode(errors="replace")] if whole else lines

    def _new(self) -> bytes:
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < self._at:  # somebody has cut it
                self._at, self._rest = 0, b""
            data = os.pread(fd, MAX_READ_BYTES, self._at)
        finally:
            os.close(fd)
        self._at += len(data)
        return data

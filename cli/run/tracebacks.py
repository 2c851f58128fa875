"""Tracebacks in what the ranks write: the same one is shown once, however many ranks raise it.

Called by `cli.run.tails` for stderr, before the lines of the ranks are merged. Pure. The log files
keep all of them.
"""

import re

HEAD = re.compile(rb"(\[rank\d+\]: )?Traceback \(most recent call last\):\s*$")
"""A traceback's first line; torch puts the rank before each line of its own."""
MARK = re.compile(rb"^\[rank\d+\]: ?", re.MULTILINE)


class Once:
    """Filters what all ranks write, over all attempts of a run."""

    def __init__(self) -> None:
        self._shown: set[bytes] = set()
        self._open: dict[int, bytes] = {}
        self._last = b""

    def take(self, rank: int, data: bytes) -> bytes:
        """What of `data` is to be shown now; a traceback comes when it is complete."""
        shown = []
        for line in data.splitlines(keepends=True):
            if rank in self._open:
                self._open[rank] += line
                if self._ends(self._open[rank]):
                    shown.append(self.rest(rank))
            elif HEAD.match(line):
                self._open[rank] = line
            else:
                shown.append(line)
                self.other(line)
        return b"".join(shown)

    def rest(self, rank: int) -> bytes:
        """The traceback that is held back for `rank`, unless it was shown before."""
        held = self._open.pop(rank, b"")
        bare = MARK.sub(b"", held)
        if not held or bare in self._shown:
            return b""
        self._shown.add(bare)
        self._last = bare
        return held

    def other(self, data: bytes) -> None:
        """Take note that something else was shown after it."""
        if data.strip():
            self._last = b""

    def ended_in(self, traceback: str) -> bool:
        """Whether the last that was shown is a traceback of the same exception."""
        exception = traceback.encode().splitlines()[-1:]
        return bool(self._last) and self._last.splitlines()[-1:] == exception

    @staticmethod
    def _ends(held: bytes) -> bool:
        """A traceback ends with the first line that is not indented: the exception."""
        last = held.splitlines()[-1]
        return held.endswith(b"\n") and not MARK.sub(b"", last).startswith(b" ")

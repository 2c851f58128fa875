"""What the node's ranks write, on this process's own stdout too: there a pod's log is read.

Used by `executor.ranks`. Ranks write to their files and never wait for whoever reads stdout; a
thread follows the files. Where the reader is slower than the ranks, lines are left out here, and
said. Must not change the files.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from holdfast.executor.core.lines import Lines
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()

LOOK_S = 0.25
"""Between two looks at files in which nothing was new: quick enough for a reader."""
PIECE_BYTES = 65_536
"""Read of a file at once, so that ranks take turns. A pipe holds as much."""
MOST_BEHIND_BYTES = 1 << 20
"""Of a file that were not shown yet; what is older than the last piece is left out then."""
END_WITHIN_S = 0.5
"""For the last lines when the executor ends; its host gives it 1 s (`keeper.supervisor`)."""


class Followed:
    """A file of a rank, from where it ends now. Raises `OSError` where there is none."""

    def __init__(self, rank: int, path: Path) -> None:
        self.path = path
        self._name = b"[rank %d] " % rank
        self._lines = Lines(self._name)
        self._at = path.stat().st_size
        self._until: int | None = None

    def more(self) -> bytes:
        """The next lines; b"" where nothing is new. Raises `OSError`."""
        with self.path.open("rb", buffering=0) as file:
            end = file.seek(0, os.SEEK_END) if self._until is None else self._until
            left_out = b""
            if end - self._at > MOST_BEHIND_BYTES:
                left_out = self._leave_out(file.fileno(), end - PIECE_BYTES)
            data = os.pread(file.fileno(), max(0, min(PIECE_BYTES, end - self._at)), self._at)
            self._at += len(data)
            return left_out + self._lines.feed(data)

    def stop(self) -> None:
        """Its rank has ended: what another attempt adds is not this one's. Raises `OSError`."""
        self._until = self.path.stat().st_size

    def rest(self) -> bytes:
        """What is left of a stopped one. Raises `OSError`."""
        found, at = [self.more()], -1
        while at != self._at:
            at = self._at
            found.append(self.more())
        return b"".join((*found, self._lines.end()))

    def _leave_out(self, file: int, until: int) -> bytes:
        """Go on near byte `until`, where a line begins, and say how many lines are not shown.

        One that was begun is among them: without its end it would be shown as another line.
        """
        self._lines.end()
        lines = 0
        while data := os.pread(file, min(MOST_BEHIND_BYTES, until - self._at), self._at):
            lines += data.count(b"\n")
            self._at += len(data)
        end = os.pread(file, PIECE_BYTES, self._at).find(b"\n")
        if end >= 0:
            lines, self._at = lines + 1, self._at + end + 1
        why = b"whoever reads this is slower than the rank. Its file has them all"
        return self._name + b"[%d lines left out: %s]\n" % (lines, why)


class Echo:
    """Writes to the descriptor `out` what the followed files get, until `close`."""

    def __init__(self, out: int = 1) -> None:
        self._out = out
        self._followed: list[Followed] = []
        self._over: list[Followed] = []
        self._lock = Lock()
        self._ending = Event()
        self._failed = False
        self._thread = Thread(target=self._run, name="echo", daemon=True)

    def follow(self, rank: int, *paths: Path) -> None:
        """Show what `rank` is going to write to these files, which are there."""
        with self._lock:
            self._followed += [Followed(rank, path) for path in paths]
        if not self.running:
            self._thread.start()

    def drop(self) -> None:
        """All ranks have ended: show what is left of what they wrote, then look no more."""
        with self._lock:
            for each in self._followed:
                with suppress(OSError):  # it was removed: nothing of it can be shown
                    each.stop()
                    self._over.append(each)
            self._followed = []

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self, within_s: float = END_WITHIN_S) -> None:
        """Show what is left, as far as it can be shown by then."""
        self.drop()
        self._ending.set()
        if self.running:
            self._thread.join(within_s)

    def _run(self) -> None:
        while not self._ending.is_set():
            if not self._look():
                self._ending.wait(LOOK_S)
        self._look()

    def _look(self) -> bool:
        """Show what is new; whether anything was."""
        with self._lock:
            followed, over, self._over = self._followed, self._over, []
        shown = [self._show(each.more) for each in followed]
        return any([*shown, *(self._show(each.rest) for each in over)])

    def _show(self, read: Callable[[], bytes]) -> bool:
        try:
            left = read()
            shown = bool(left)
            while left:
                left = left[os.write(self._out, left) :]
        except OSError as error:  # a file that was removed, a full disk, a reader that is gone
            self._say(error)
            return False
        return shown

    def _say(self, error: OSError) -> None:
        """Once: the ranks' files are what counts."""
        if not self._failed:
            self._failed = True
            _log.warning("what ranks write is not shown here", why=error.strerror)

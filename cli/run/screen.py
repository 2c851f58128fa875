"""Where a run's output goes: our stdout and stderr, which may be one terminal or one file.

Made by `cli.run.follow`. Must not raise: where nothing can be written, whoever made it is told
once, and what follows goes nowhere. Writes past Python's own buffers, so that a signal's handler
may say something in the middle of it.
"""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.cli.errors import Stopped
from holdfast.kit.plain import visible

STDOUT, STDERR = 1, 2


class Screen:
    """Both streams. What one of them begins to say after half a line of the other, and whatever we
    say, begins on a line of its own.
    """

    def __init__(self, failed: Callable[[str], None]) -> None:
        """`failed`: called with why nothing can be written, the first time."""
        self._tell_failed = failed
        self._are_one = os.path.sameopenfile(STDOUT, STDERR)
        self._unended: set[int] = set()
        self._error: OSError | None = None

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raises `BrokenPipeError`, or `Stopped`, where something could not be written."""
        if self._error is None:
            return
        if isinstance(self._error, BrokenPipeError):
            raise self._error
        why = f"cannot write to {self._error.filename}: {self._error.strerror}."
        raise Stopped(why, fix="Free some space, or write elsewhere.") from self._error

    def stdout(self, data: bytes) -> None:
        self._write(STDOUT, data)

    def stderr(self, data: bytes) -> None:
        self._write(STDERR, data)

    def say(self, line: str) -> None:
        """A line of our own, on stderr."""
        begin = b"\n" if STDERR in self._unended else b""
        said = f"{visible(line)}\n".encode(sys.stderr.encoding, "backslashreplace")
        self._write(STDERR, begin + said)

    def _write(self, stream: int, data: bytes) -> None:
        if self._are_one and self._unended - {stream}:
            data = b"\n" + data
            self._unended.clear()
        try:
            _write_all(stream, data)
        except OSError as error:
            error.filename = output_of(stream)
            self._give_up(stream, error)
        (self._unended.discard if data.endswith(b"\n") else self._unended.add)(stream)

    def _give_up(self, stream: int, error: OSError) -> None:
        """All that follows goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream)
        os.close(nowhere)
        if self._error is None:
            self._error = error
            self._tell_failed(
                "nobody reads its output any more"
                if isinstance(error, BrokenPipeError)
                else f"its output cannot be written to {error.filename} ({error.strerror})"
            )


def output_of(stream: int) -> str:
    """Where a stream of ours goes: the path of a file, as far as there is one."""
    try:
        return str(Path(f"/proc/self/fd/{stream}").readlink())
    except OSError:
        return "stdout" if stream == STDOUT else "stderr"


def _write_all(stream: int, data: bytes) -> None:
    """Also where another program has made the terminal one that does not wait."""
    while data:
        try:
            data = data[os.write(stream, data) :]
        except BlockingIOError:
            select.select((), (stream,), ())

"""A command in a terminal of its own, and what is on its screen, by a small emulator.

Knows of escape sequences what `holdfast top` writes: place, clear, style. Anything else fails.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from waiting import DEADLINE_S, eventually

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Seen:
    """The screen of a running command. `keys` types."""

    def __init__(
        self, master: int, process: subprocess.Popen[bytes], size: tuple[int, int]
    ) -> None:
        self.process = process
        self._master = master
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self.styles: set[str] = set()
        self.other_screen = False
        self._sized(size)

    def _sized(self, size: tuple[int, int]) -> None:
        self._columns, self._rows = size
        self._cells = [[" "] * self._columns for _ in range(self._rows)]
        self._at = [0, 0]

    def resize(self, columns: int, rows: int) -> None:
        set_size(self._master, columns, rows)
        self._sized((columns, rows))

    def keys(self, text: str) -> None:
        os.write(self._master, text.encode())

    def text(self) -> str:
        """What is on it now."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65_536)
            except OSError:  # the other side has ended
                break
            if not data:
                break
            self._draw(self._decode.decode(data))
        return "\n".join("".join(row).rstrip() for row in self._cells)

    def until(self, *parts: str, within_s: float = DEADLINE_S) -> str:
        """The screen, once all of this is on it."""
        try:
            eventually(lambda: all(part in self.text() for part in parts), within_s=within_s)
        except TimeoutError:
            raise AssertionError(f"{parts} never came:\n{self.text()}") from None
        return self.text()

    def ended(self) -> int:
        def over() -> bool:
            self.text()
            return self.process.poll() is not None

        eventually(over, "it ends")
        return self.process.returncode

    def _draw(self, text: str) -> None:
        text = self._rest + text
        self._rest = ""
        while text:
            if text[0] != "\x1b":
                self._put(text[0])
                text = text[1:]
            elif found := _SEQUENCE.match(text):
                self._obey(found[1], found[2], found[3])
                text = text[found.end() :]
            else:
                self._rest = text
                return

    def _put(self, sign: str) -> None:
        if sign == "\n":
            self._at = [min(self._at[0] + 1, self._rows - 1), self._at[1]]
        elif sign == "\r":
            self._at[1] = 0
        elif self._at[0] < self._rows and self._at[1] < self._columns:
            self._cells[self._at[0]][self._at[1]] = sign
            self._at[1] += 1

    def _obey(self, private: str, numbers: str, what: str) -> None:
        if private:
            self.other_screen = {"1049h": True, "1049l": False}.get(
                numbers + what, self.other_screen
            )
        elif what == "H":
            row, column = (int(each) for each in numbers.split(";"))
            self._at = [row - 1, column - 1]
        elif what == "m":
            self.styles.add(numbers)
        elif what == "K":
            row, column = self._at
            if row < self._rows:
                self._cells[row][column:] = [" "] * (self._columns - column)
        elif what == "J":
            first = 0 if numbers == "2" else self._at[0]
            for row in range(first, self._rows):
                self._cells[row] = [" "] * self._columns
        else:
            raise AssertionError(f"an escape sequence that nobody expects: {what!r}")


def set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def in_terminal(
    words: Sequence[str], folder: Path, told: Mapping[str, str], size: tuple[int, int] = (80, 24)
) -> Iterator[Seen]:
    """`words` run there; killed at the end where they still do."""
    master, slave = pty.openpty()
    set_size(slave, *size)
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={**environment, "TERM": "xterm", **told},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    try:
        yield Seen(master, process, size)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_S)
        os.close(master)


_UNSET = ("COLUMNS", "LINES", "NO_COLOR", "HOLDFAST_STATE", "HOLDFAST_TOKEN")

"""The terminal: its size, its keys, and lines on it. Gives it back as it was.

Used by `command` alone. Colour is left out where NO_COLOR is set (no-color.org); what is chosen is
shown by a mark too.
"""

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Self

from holdfast.cli.top.draw import Line

KEYS: Mapping[bytes, str] = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
    b"\t": "tab",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}
"""As terminals of the xterm family send them (ECMA-48, DECCKM on and off)."""

SEQUENCE_S = 0.05
"""In which the rest of a key comes that begins with escape, also over a slow line."""
_STYLES = {"bold": "1", "dim": "2", "reverse": "7"}
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[0m\x1b[?25h\x1b[?1049l"
_WAKES = (signal.SIGWINCH, signal.SIGCONT)
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """Of stdin and stdout while `taken`."""

    def __init__(self) -> None:
        self._ours, self._theirs = os.pipe()
        os.set_blocking(self._theirs, False)
        os.set_blocking(self._ours, False)
        self._coloured = not os.environ.get("NO_COLOR")
        self._before: Sequence[Line] = ()
        self._lost = False  # what is on the screen; a signal's handler may not write itself
        self._taken_away = False
        self.told_to_end = False

    @contextmanager
    def taken(self) -> Iterator[Self]:
        """In its other screen, a key at a time. Ctrl-C is a signal still."""
        modes = termios.tcgetattr(sys.stdin)
        handlers = {number: signal.signal(number, self._signalled) for number in (*_WAKES, *_ENDS)}
        try:
            self._enter()
            yield self
        finally:
            self._write(_LEAVE)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(self._ours)
            os.close(self._theirs)

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        columns, rows = shutil.get_terminal_size()
        return columns, rows

    def wake(self) -> None:
        """End `keys` of another thread."""
        try:
            os.write(self._theirs, b".")
        except (BlockingIOError, OSError):  # it is awake, or has ended
            return

    def keys(self) -> list[str]:
        """Wait for keys, or until somebody has something new to show: then none."""
        ready, _, _ = select.select([sys.stdin, self._ours], [], [])
        if self._ours in ready:
            os.read(self._ours, 4_096)
        return self._pressed() if sys.stdin in ready else []

    def show(self, lines: Sequence[Line]) -> None:
        """The lines that are others than before; all, once the screen was lost."""
        if self._taken_away:
            self._enter()
        if self._lost:
            self._forget()
        out = []
        for at, line in enumerate(lines):
            if at >= len(self._before) or self._before[at] != line:
                out.append(f"\x1b[{at + 1};1H\x1b[0m{self._styled(line)}\x1b[0m\x1b[K")
        if len(lines) < len(self._before):
            out.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._before = list(lines)
        self._write("".join(out))

    def _forget(self) -> None:
        self._lost, self._before = False, ()
        self._write("\x1b[2J")

    def _enter(self) -> None:
        self._taken_away = False
        tty.setcbreak(sys.stdin)
        self._write(_ENTER)
        self._forget()

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self.told_to_end = self.told_to_end or number in _ENDS
        self._taken_away = self._taken_away or number == signal.SIGCONT
        self._lost = True
        self.wake()

    def _pressed(self) -> list[str]:
        data = os.read(sys.stdin.fileno(), 4_096)
        if not data:  # nobody is there any more
            self.told_to_end = True
        begun = data.endswith((b"\x1b", b"\x1b[", b"\x1bO"))
        if begun and select.select([sys.stdin], [], [], SEQUENCE_S)[0]:
            data += os.read(sys.stdin.fileno(), 4_096)
        return list(named(data))

    def _styled(self, line: Line) -> str:
        codes = _STYLES | (_COLOURS if self._coloured else {})
        code = codes.get(line.style)
        return f"\x1b[{code}m{line.text}" if code else line.text

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def named(data: bytes) -> Iterator[str]:
    """Keys by name, or the characters that were typed; what else terminals send is passed over."""
    text = data
    while text:
        key = next((each for each in KEYS if len(each) > 1 and text.startswith(each)), b"")
        if key:
            yield KEYS[key]
            text = text[len(key) :]
        elif text.startswith((b"\x1b[", b"\x1bO")):
            end = next((at for at in range(2, len(text)) if 0x40 <= text[at] <= 0x7E), len(text))
            text = text[end + 1 :]
        elif text[:1] in KEYS:
            yield KEYS[text[:1]]
            text = text[1:]
        else:
            first = _character(text)
            if first:
                yield first
            text = text[max(1, len(first.encode())) :]


def _character(data: bytes) -> str:
    """The one that it begins with; "" where it begins with none."""
    for size in range(1, 5):
        try:
            return data[:size].decode()
        except UnicodeDecodeError:
            continue
    return ""

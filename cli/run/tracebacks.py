"""The exceptions that end ranks: the same one is shown once, however many ranks raise it.

What a rank prints that only lost a peer is no cause: it is folded into one line for all of them,
which stands below the rest of the attempt.
Called by `cli.run.tails` for stderr, before the lines of the ranks are merged. A rank has written
its exception into its error file before it prints it: where that text begins and ends is not to be
guessed. Must not touch the log files: they keep all of it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.executor.errors import exception_of
from holdfast.kit.plain import visible
from holdfast.telemetry.analysis.echoes import in_collective

_MARGIN = rb"(?:\[rank\d+\]: )?[ |]*"
_HINT = rb"(?P<hint>\. Did you mean: [^\n]*\?)?"
"""What CPython 3.11 adds as it prints an exception, and no traceback that is asked for has."""

FEW = 8
"""Ranks up to which all are named."""
SHORT_CHARACTERS = 160


INTERRUPTED = b"KeyboardInterrupt"
"""One of them is enough: each rank raises it somewhere else, and none is why the run ends."""


class Uncaught(NamedTuple):
    """An exception, how its rank prints it, and what to say of a rank that only lost a peer."""

    text: bytes
    printed: re.Pattern[bytes]
    echo: str

    @property
    def key(self) -> bytes:
        """Equal for exceptions of which the first is shown."""
        return INTERRUPTED if self.text.endswith(INTERRUPTED + b"\n") else self.text


class Once:
    """Filters the stderr of all ranks, over all attempts of a run."""

    def __init__(self) -> None:
        self._shown: set[bytes] = set()
        self._held: dict[Path, bytes] = {}
        self._told: set[Path] = set()
        self._last: list[bytes] = []
        self._raised: set[Path] = set()
        self._lost: dict[Path, Uncaught] = {}

    def take(self, folder: Path, data: bytes) -> bytes:
        """What is to be shown now of `data`, read from the stderr of the rank with that folder."""
        error = uncaught(folder) if data and folder not in self._told else None
        if error is None:
            return self.other(data)
        held = self._held.pop(folder, b"") + data
        found = error.printed.search(held)
        if found is None:
            self._held[folder] = held
            return b""
        self._told.add(folder)
        before, after = held[: found.start()], held[found.end() :]
        hint = found["hint"] or b""
        return self.other(before) + self._first(folder, error, hint) + self.other(after)

    def rest(self, folder: Path) -> bytes:
        """What to show at the rank's end of what is held back: it has printed its exception in
        another way, or was ended while it printed it.
        """
        held = self._held.pop(folder, b"")
        error = uncaught(folder) if held else None
        start = _begun(held, error.text) if error is not None else None
        if error is None or start is None:
            return self.other(held)
        return self.other(held[:start]) + self._first(folder, error)

    def has_shown(self, folder: Path) -> bool:
        """Whether the exception of the rank with that folder was shown."""
        return folder in self._raised

    def other(self, data: bytes) -> bytes:
        """Take note that this was shown too."""
        if data.strip():
            self._last.clear()
        return data

    def ended_in(self, traceback: str) -> bool:
        """Whether nothing was shown after that exception; of a long one its end will do."""
        end = traceback.strip().encode(errors="backslashreplace")
        return any(each.rstrip().endswith(end) for each in self._last)

    def folded(self, folders: Sequence[Path]) -> bytes:
        """One line about those of an attempt's ranks that lost a peer; `folders`: by rank."""
        lost = [rank for rank, folder in enumerate(folders) if folder in self._lost]
        if not lost:
            return b""
        log, here = folders[lost[0]] / "stderr.log", Path.cwd()
        log = log.relative_to(here) if here in log.parents else log
        ranks = ", ".join(f"r{rank}" for rank in lost[:FEW]) + (", …" if len(lost) > FEW else "")
        what = self._lost[folders[lost[0]]].echo
        for each in folders:
            self._lost.pop(each, None)
        return f"[{ranks}] lost a peer: {what} (whole in {log})\n".encode()

    def _first(self, folder: Path, error: Uncaught, hint: bytes = b"") -> bytes:
        if error.echo:
            self._lost[folder] = error
            return b""
        if error.key in self._shown:
            return b""
        self._shown.add(error.key)
        self._raised.add(folder)
        self._last.append(error.text)
        return error.text.rstrip(b"\n") + hint + b"\n" if hint else error.text


def uncaught(folder: Path) -> Uncaught | None:
    """The exception in the error file in `folder`, in torch elastic's format; None without one."""
    try:
        told: Any = msgspec.json.decode((folder / "error.json").read_bytes())["message"]
        text, message = str(told["extraInfo"]["py_callstack"]), str(told["message"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None  # none, not yet whole, or the script's own: nothing is held back
    lost_peer = in_collective(message, text, exception_of(message, text))
    encoded = text.encode(errors="backslashreplace")
    return Uncaught(encoded, _printed(encoded), _in_short(message) if lost_peer else "")


def _in_short(message: str) -> str:
    """`RuntimeError: Connection closed by peer [10.0.0.3]:52635`, without where torch was built."""
    said = re.sub(r"\[/\S+\] ", "", message.partition("\n")[0])
    return visible(said.partition(". ")[0][:SHORT_CHARACTERS])


def _printed(text: bytes) -> re.Pattern[bytes]:
    """The same lines, maybe after the rank, as torch prints them once a process group was made.

    Inside a group the interpreter leaves out the margin of a message's later lines.
    """
    lines = [_MARGIN + re.escape(line.lstrip(b" |")) for line in text.split(b"\n")]
    return re.compile(b"^" + b"\n".join(lines[:-1]) + _HINT + b"\n", re.MULTILINE)


def _begun(held: bytes, text: bytes) -> int | None:
    """Where in `held` the lines of `text` begin that `held` ends in the middle of."""
    wanted = [line.lstrip(b" |") for line in text.split(b"\n")]
    starts = [0, *(end.end() for end in re.finditer(b"\n", held))]
    for start in starts:
        *whole, last = (re.sub(b"^" + _MARGIN, b"", line) for line in held[start:].split(b"\n"))
        following = wanted[len(whole) :][:1]
        if whole == wanted[: len(whole)] and following and following[0].startswith(last):
            return start if held[start:].strip() else None
    return None

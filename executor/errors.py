"""What a rank left behind when it ended: its error file, else the end of its stderr; its ring.

Called by `executor.ranks`. Pure but for reading these files.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol.messages import RankError, RankProgress
from holdfast.telemetry.analysis.echoes import in_collective
from holdfast.telemetry.ring import RingError, RingReader

MAX_MESSAGE, MAX_TRACEBACK = 2_000, 8_000
"""Characters that are passed on: an Observed of 64 ranks that failed has to fit in a frame."""
STDERR_TAIL_BYTES = 16_384
MAX_FILE_BYTES = 1 << 20
"""Of an error file: torch's own has a traceback, and what is longer is not one."""

_LAST_LINE = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(: (?P<text>.*))?$", re.DOTALL)
_MARGIN = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""What torch puts before each line of a traceback once a process group was made."""
_TRACEBACK = "Traceback (most recent call last):"
_CAME_OF = re.compile(
    r"\n(During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)\s*\Z"
)
"""Before the traceback of an exception that came of another one."""


def rank_error(folder: Path) -> RankError | None:
    """The error of the rank whose files are in `folder`; None where it left no word."""
    return _from_file(folder / "error.json") or _from_stderr(folder / "stderr.log")


def last_step(ring: Path) -> int | None:
    """The step that the rank completed last, by its ring; None where it left none that is whole."""
    seen = _last(ring)
    return None if seen is None else seen.step


def all_step(ring: Path, peers: Iterable[Path]) -> int | None:
    """The step that all ranks of the node have completed, by their rings as they are now: a
    heartbeat may be some steps old. None where one of them tells nothing.
    """
    steps = [None if (seen := _last(each)) is None else seen.step for each in {ring, *peers}]
    known = [step for step in steps if step is not None]
    return min(known) if len(known) == len(steps) else None


def saved_steps(ring: Path, peers: Iterable[Path]) -> int | None:
    """How many steps of this attempt its script had saved, by the rings of the ranks of the node:
    often one rank saves for all. None where the script numbers its steps, or nothing is known.
    """
    seen = _last(ring)
    if seen is None or "step numbers" not in seen.partial:
        return None
    found = [seen, *filter(None, map(_last, peers))]
    return max(each.step - each.unsaved for each in found)


def _last(ring: Path) -> RankProgress | None:
    try:
        reader = RingReader(ring)
    except (OSError, RingError):
        return None
    seen = reader.read()
    torn = reader.torn
    reader.close()
    return None if torn else seen


def _from_file(path: Path) -> RankError | None:
    """Torch elastic's format: message.message, message.extraInfo.{py_callstack, timestamp}."""
    try:
        content: Any = msgspec.json.decode(_read(path, MAX_FILE_BYTES))
        message = content["message"]
        if isinstance(message, str):
            return _error(message, "", 0.0)
        extra = message.get("extraInfo", {})
        stamp_s = float(extra.get("timestamp", 0) or 0)
        return _error(str(message["message"]), str(extra.get("py_callstack", "")), stamp_s)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None  # absent, or written by something else: stderr has to do


def _from_stderr(path: Path) -> RankError | None:
    try:
        read = _read(path, -STDERR_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    text = _MARGIN.sub("", read).strip()
    if not text:
        return None
    if _TRACEBACK not in text:
        return _error(text.rpartition("\n")[2], "", 0.0)
    last = text.rindex(_TRACEBACK)
    return _error(_last_words(text[last:]), text[_first(text, last) :], 0.0)


def _first(text: str, last: int) -> int:
    """Where the traceback begins of the exception that the one at `last` came of in the end."""
    while _CAME_OF.search(before := text[:last]) and _TRACEBACK in before:
        last = before.rindex(_TRACEBACK)
    return last


def _read(path: Path, most: int) -> bytes:
    """Its first bytes, or last where `most` is negative. A pipe is not waited for: it is a rank's.

    Raises `OSError`.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        at = max(0, os.fstat(fd).st_size + most) if most < 0 else 0
        return os.pread(fd, abs(most), at)
    finally:
        os.close(fd)


def _last_words(trace: str) -> str:
    """The exception's line in a traceback: the first after the frames that is not indented."""
    lines = trace.split("\n")[1:]
    words = [line for line in lines if line and not line.startswith((" ", "\t"))]
    return words[0] if words else trace


def _error(message: str, trace: str, stamp_s: float) -> RankError:
    exception = exception_of(message, trace)
    return RankError(
        message=message[:MAX_MESSAGE],
        traceback=trace[-MAX_TRACEBACK:],
        exception=exception,
        in_collective=in_collective(message, trace, exception),
        stamp_s=stamp_s,
    )


def exception_of(message: str, trace: str) -> str:
    """The name of the exception that the message begins with, without its module; "" if none."""
    named = _LAST_LINE.match(message)
    name = named["name"].rpartition(".")[2] if named else ""
    return name if name[:1].isupper() and (trace or name.endswith("Error")) else ""

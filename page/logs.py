"""The end of a rank's log as lines, with the first error found. Pure. Used by the page of a job."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kit.plain import visible

SHOWN_LINES = 200
"""Of the end, on the page; the whole is in the file."""
READ_BYTES = 64_000
"""Of the end, in which an error is looked for."""
SHOWN_CHARACTERS = 2_000
"""Of a line."""

_ERROR = re.compile(
    r"^Traceback \(most recent call last\)"
    r"|^\S*(Error|Exception|Interrupt|Exit)\b(:|$)"
    r"|\b(CUDA error|NCCL (WARN|ERROR)|out of memory|Segmentation fault|Bus error|core dumped)\b"
    r"|\b(ERROR|FATAL|CRITICAL|panic)\b",
)
"""How the errors of Python, CUDA, NCCL, the C library and usual loggers begin."""


class Line(NamedTuple):
    """`number`: from 1, of those that were read. `error`: it is the first that looks like one."""

    number: int
    text: str
    error: bool


class Pane(NamedTuple):
    """What is shown. `cut`: more came before, which was not read or is not shown."""

    lines: tuple[Line, ...]
    cut: bool
    error: Line | None


def pane(data: bytes, *, whole: bool) -> Pane:
    """The end of what was read, and the first error of all of that, which is shown in any case.

    `whole`: `data` is the log from its beginning.
    """
    texts = data.decode(errors="replace").splitlines()
    texts = texts if whole or len(texts) < 2 else texts[1:]  # the first is cut in the middle
    first = first_error(texts)
    lines = [
        Line(place + 1, visible(text[:SHOWN_CHARACTERS]), place == first)
        for place, text in enumerate(texts)
    ]
    kept = lines[-SHOWN_LINES:]
    cut = not whole or len(kept) < len(lines)
    return Pane(tuple(kept), cut, None if first is None else lines[first])


def first_error(texts: Sequence[str]) -> int | None:
    """The place of the first line that looks like an error; None where none does."""
    return next((place for place, text in enumerate(texts) if _ERROR.search(text)), None)

"""Where ranks that hang stand, from their stacks as py-spy prints them. Pure.

Called by the driver. Whole stacks are kept with the incident; this is the line that a person reads:
the user's own line of each rank, and of a child process of it where that stands in the user's code.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from holdfast.telemetry.analysis.installed import is_installed

FEW = 4
"""Ranks that a line names."""

_PROCESS = re.compile(r"^Process (?P<pid>\d+):", re.MULTILINE)
_FRAME = re.compile(r" +(?P<function>.+) \((?P<file>[^():]+)(:(?P<line>\d+))?\)")
_LIBRARY = re.compile(
    r"/lib(64)?/python3[^/]*/|/python3\d+\.zip/"
    r"|(^|/)holdfast/(checkpoint|executor|kit|protocol|telemetry)/"
)
_SHORT = ("torch/", "holdfast/")
"""Of executors of an earlier version, whose files have no folder: nor has the standard library."""


def told(stacks: Mapping[int, str]) -> str:
    """`stacks: rank 3 is in step (train.py:31), rank 0 in all_reduce (…)`."""
    where = [f"rank {rank} {_stands(text)}" for rank, text in list(stacks.items())[:FEW]]
    more = len(stacks) - len(where)
    return f"stacks: {', '.join(where)}{f' and {more} more' if more > 0 else ''}"


def _stands(text: str) -> str:
    """The innermost frame of the main thread that is the user's own, else the innermost."""
    (_, own), *children = list(_processes(text))
    frames = list(_main_thread(own.splitlines()))
    if not frames:
        return f"has {text.splitlines()[0]}" if text.startswith("no stack") else "has no stack"
    return f"is in {_named(_theirs(frames) or frames[0])}{_busy_child(children)}"


def _processes(text: str) -> Iterator[tuple[str, str]]:
    """The rank's stacks, then those of its child processes, with the pid of each."""
    begins = [match.start() for match in _PROCESS.finditer(text) if match.start()]
    for begin, end in zip([0, *begins], [*begins, len(text)], strict=True):
        match = _PROCESS.match(text, begin)
        yield (match["pid"] if match else "", text[begin:end])


def _busy_child(children: Iterable[tuple[str, str]]) -> str:
    """The first that stands in the user's own code: others wait for what they are to do."""
    for pid, text in children:
        frame = _theirs(list(_main_thread(text.splitlines())))
        if frame is not None:
            return f", its child {pid} in {_named(frame)}"
    return ""


def _theirs(frames: Iterable[re.Match[str]]) -> re.Match[str] | None:
    return next((frame for frame in frames if not _is_library(frame["file"])), None)


def _is_library(file: str) -> bool:
    if is_installed(file) or _LIBRARY.search(file):
        return True
    if file.startswith("/"):
        return False
    module = file.partition("/")[0].removesuffix(".py")
    return file.startswith(_SHORT) or module in sys.stdlib_module_names


def _named(frame: re.Match[str]) -> str:
    file = frame["file"]
    shown = file.rpartition("/")[2] if file.startswith("/") else file
    return f"{frame['function']} ({shown}{':' + frame['line'] if frame['line'] else ''})"


def _main_thread(lines: Iterable[str]) -> Iterable[re.Match[str]]:
    main = False
    for line in lines:
        if line.startswith("Thread "):
            main = '"MainThread"' in line
        elif main and (frame := _FRAME.fullmatch(line)):
            yield frame

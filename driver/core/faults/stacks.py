"""Where ranks that hang stand, from their stacks as py-spy prints them. Pure.

Called by `findings`. Whole stacks are kept with the incident; this is the line that a person reads.
"""

import re
from collections.abc import Iterable, Mapping

FEW = 4
"""Ranks that a line names."""

_FRAME = re.compile(r" +(?P<function>.+) \((?P<file>[^():]+)(:(?P<line>\d+))?\)")
_NOT_THEIRS = ("torch/", "holdfast/", "importlib/", "<frozen ", "runpy.py", "threading.py")


def told(stacks: Mapping[int, str]) -> str:
    """`stacks: rank 3 is in step (train.py:31), rank 0 in all_reduce (…)`."""
    where = [f"rank {rank} {_stands(text)}" for rank, text in list(stacks.items())[:FEW]]
    more = len(stacks) - len(where)
    return f"stacks: {', '.join(where)}{f' and {more} more' if more > 0 else ''}"


def _stands(text: str) -> str:
    """The innermost frame of the main thread that is the user's own, else the innermost."""
    frames = list(_main_thread(text.splitlines()))
    if not frames:
        return f"has {text.splitlines()[0]}" if text.startswith("no stack") else "has no stack"
    theirs = [frame for frame in frames if not frame["file"].startswith(_NOT_THEIRS)]
    frame = (theirs or frames)[0]
    line = f":{frame['line']}" if frame["line"] else ""
    return f"is in {frame['function']} ({frame['file']}{line})"


def _main_thread(lines: Iterable[str]) -> Iterable[re.Match[str]]:
    main = False
    for line in lines:
        if line.startswith("Thread "):
            main = '"MainThread"' in line
        elif main and (frame := _FRAME.fullmatch(line)):
            yield frame

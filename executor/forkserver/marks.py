"""The marks of a run on a process that was forked and not executed: where the kernel shows the
environment it was started with, they take the place of a variable that was made for that.

Called by `becoming`, and by `main` to see whether this kernel lets us; `holdfast warm` makes room.
"""

import os
from collections.abc import Mapping

from holdfast.protocol.forkserving import MARKS_BYTES, MARKS_HERE

ENV_START, ENV_END = 47, 48
"""Fields 50 and 51 of /proc/self/stat (proc(5)), counted from the one behind the name."""


def room() -> dict[str, str]:
    """The variable to start a fork server with."""
    return {MARKS_HERE: "-" * MARKS_BYTES}


def check() -> None:
    """Raises `OSError` where this kernel does not let us, `ValueError` where there is no room."""
    at, variable = _found()
    _write(at, variable)


def put(marks: Mapping[str, str]) -> None:
    """Show these, and no longer the variable. Raises as `check`."""
    text = b"\0".join(os.fsencode(f"{name}={value}") for name, value in marks.items())
    at, variable = _found()
    if len(text) > len(variable):
        raise ValueError(f"marks of {len(text)} bytes have room for {len(variable)}")
    _write(at, text.ljust(len(variable), b"\0"))


def _found() -> tuple[int, bytes]:
    """Where in memory the variable is, and all of it."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b") ")[2].split()
    start, end = int(fields[ENV_START]), int(fields[ENV_END])
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        whole = memory.read(end - start)
    variable = f"{MARKS_HERE}={'-' * MARKS_BYTES}".encode()
    if (place := whole.find(variable)) < 0:
        raise ValueError(f"this process was not started with {MARKS_HERE}")
    return start + place, variable


def _write(at: int, text: bytes) -> None:
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        memory.write(text)

"""What `ps`, `top` and `/proc` call a forked program: by its own command line, not the launcher's.

Called by `child` in the process itself.
"""

import os
from collections.abc import Sequence

ARG_START, ARG_END = 45, 46
"""Fields 48 and 49 of /proc/self/stat (proc(5)), counted from the one behind the name."""
LONGEST_NAME = 15
"""Bytes of a process's short name, prctl(2)."""


def call(title: str, command: Sequence[str]) -> None:
    """`title` is the short name; `command` is cut where the launcher's own was shorter.

    The words are written where the kernel reads them. A kernel that does not allow it leaves the
    launcher's there: only the picture suffers.
    """
    with open("/proc/self/comm", "w", encoding="utf-8") as comm:
        comm.write(title[:LONGEST_NAME])
    try:
        _write(b"\0".join(os.fsencode(word) for word in command))
    except OSError:
        return


def _write(words: bytes) -> None:
    """The last byte stays NUL: otherwise the kernel would read on into the environment."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b") ")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    room = end - start
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(words[: room - 1].ljust(room, b"\0"))

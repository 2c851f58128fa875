"""What a process has used, as the kernel counts it: CPU seconds and memory.

Used by the turns and by the readers, for themselves. Must not take a process' own word.
"""

import os
from pathlib import Path
from typing import NamedTuple

TICKS_A_S = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Of one process with all its threads, so far."""

    cpu_s: float
    memory_bytes: int
    peak_bytes: int


def usage_of(pid: int) -> Usage:
    """proc(5). Raises `OSError` where there is no such process."""
    process = Path("/proc") / str(pid)
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    lines = (process / "status").read_text().splitlines()
    said = dict(line.split(":", 1) for line in lines if line.startswith("Vm"))
    return Usage(
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_A_S,
        memory_bytes=_bytes(said["VmRSS"]),
        peak_bytes=_bytes(said["VmHWM"]),
    )


def _bytes(said: str) -> int:
    kib, unit = said.split()
    assert unit == "kB", said
    return int(kib) * 1_024

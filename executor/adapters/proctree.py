"""The processes below this one, from /proc; and signals to them.

Called by `adapters.sweep` and `adapters.arrivals`. A zombie counts as gone once its threads are:
until then they act, and its children are below it.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple


class Place(NamedTuple):
    """Below whom a process stands. Its start is in it, as a pid is used again and again."""

    parent: int
    started_ticks: int


def below(root: int, *, keep: Collection[int] = ()) -> list[int]:
    """Living descendants of `root`, parents first, without `keep` and what is below those."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (at := place(int(name))) is not None:
            children.setdefault(at.parent, []).append(int(name))
    found: list[int] = []
    todo = [root]
    for pid in todo:
        mine = [child for child in children.get(pid, []) if child not in keep]
        found += mine
        todo += mine
    return found


def place(pid: int) -> Place | None:
    """Of a living process; None for one that is gone, or of which nothing can act any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state, parent, threads, started_ticks = fields[0], fields[1], int(fields[17]), fields[19]
    ended = state == b"X" or (state == b"Z" and threads <= 1)
    return None if ended else Place(int(parent), int(started_ticks))


def signal_all(pids: Collection[int], number: signal.Signals) -> None:
    """Send `number` to each of `pids` that is still there, and to the groups that they lead."""
    for pid in pids:
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)


def signal_each(pids: Collection[int], number: signal.Signals) -> None:
    """Send `number` to each of `pids` that is still there, and to nobody else."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

"""The processes below this one, from /proc; and signals to them.

Called by `adapters.sweep`. A zombie counts as gone: nothing of it can act any more.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress


def below(root: int, *, keep: Collection[int] = ()) -> list[int]:
    """Living descendants of `root`, parents first, without `keep` and what is below those."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(name)) is not None:
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [root]
    for pid in todo:
        mine = [child for child in children.get(pid, []) if child not in keep]
        found += mine
        todo += mine
    return found


def _parent(name: str) -> int | None:
    """The parent of a living process, None for one that is gone or a zombie."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return None if state in (b"Z", b"X") else int(parent)


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

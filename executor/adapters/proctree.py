"""The processes below this one, from /proc; and signals to them.

Called by `adapters.sweep`. One of which no thread is left counts as gone; until then it acts, and
its children are below it.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from holdfast.kit import procstat

LOOKS = 3
"""At most: where the processes of others are hidden (hidepid) some never have a parent to see."""


def below(root: int, *, keep: Collection[int] = ()) -> list[int]:
    """Living descendants of `root`, parents first, without `keep` and what is below those."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = [root]
    for pid in todo:
        mine = [child for child in children.get(pid, []) if child not in keep]
        found += mine
        todo += mine
    return found


def _parents() -> dict[int, int]:
    """Of all that live, each one's parent.

    Who is read before its parent ends, and the parent after, hangs on nobody: it has another
    parent by then, and all are looked at once more.
    """
    for _ in range(LOOKS):
        seen = {
            int(name): stat.parent
            for name in os.listdir("/proc")
            if name.isdigit() and (stat := procstat.stat(int(name))) is not None and stat.acts
        }
        if all(parent in seen or not parent for parent in seen.values()):
            break
    return seen


def interrupt(pid: int) -> bool:
    """Send SIGINT, at which Python raises KeyboardInterrupt; False where nothing was sent, for the
    process has a handler of SIGTERM, ignores SIGINT, or is gone.

    A Python program has its own children in hand: loaders of torch that die first are an error to
    it. Any other leads a group that is told as from a terminal, for a shell waits for its program.
    """
    try:
        told = Path(f"/proc/{pid}/status").read_text()
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False
    masks = dict(line.split(":\t") for line in told.splitlines() if line.startswith("Sig"))
    term, interrupt = (1 << number - 1 for number in (signal.SIGTERM, signal.SIGINT))
    if int(masks["SigCgt"], 16) & term or int(masks["SigIgn"], 16) & interrupt:
        return False
    (signal_each if program.startswith("python") else signal_all)([pid], signal.SIGINT)
    return True


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

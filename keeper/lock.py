"""The lock by which a state has one keeper, and by which its nodes see that it has one.

Used by the keeper, its hosts and the emulator's gateway. Small imports: the host starts at once.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.kit.files import private_folder

NAME, STATE = "keeper.lock", "keeper.json"


class Busy(Exception):
    """Another keeper uses this state."""


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the state's lock. Raises `Busy` where another keeper has it."""
    private_folder(root)
    with (root / NAME).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"--state: {root} is in use by another keeper. Stop it first.") from error
        yield


def is_kept(root: Path, run_id: str) -> bool:
    """Whether a keeper of this run holds the state's lock now, also one that stands still."""
    try:
        with (root / NAME).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _run_kept(root) in ("", run_id)
    except OSError:  # the folder is gone, or is no longer ours to read
        return False
    return False


def _run_kept(root: Path) -> str:
    """Where somebody removed the state, the next keeper is another run's; "" where none tells."""
    try:
        told = json.loads((root / STATE).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(told.get("run_id", ""))


class Patience:
    """Of a host or a gateway with its keeper: how long nothing has been heard or seen of it."""

    def __init__(self, root: Path, run_id: str, lasts_s: float, now_s: float) -> None:
        self._root = root
        self._run_id = run_id
        self._lasts_s = lasts_s
        self._seen_s = self._looked_s = now_s

    def heard(self, now_s: float) -> None:
        """The keeper answered."""
        self._seen_s = now_s

    def is_over(self, now_s: float) -> bool:
        """Whether there was no keeper all the time. One that does not answer is looked for at its
        lock, for our link may be cut: six times in that time, for a look is in a new keeper's way.
        """
        pause_s = self._lasts_s / 6
        if now_s - max(self._seen_s, self._looked_s) > pause_s:
            self._looked_s = now_s
            if is_kept(self._root, self._run_id):
                self._seen_s = now_s
        return now_s - self._seen_s > self._lasts_s

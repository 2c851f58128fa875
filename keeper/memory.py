"""The run's folder in shared memory, and what runs left there that were killed whole.

Used by the factories of nodes. Nothing is removed but what has our mark in it, whose keeper is gone
and of which no process lives: a folder may be called as ours are and be another's, and a container
that shares this memory (`--ipc=host`) shows its files and none of its processes.
"""

import fcntl
import os
import shutil
from pathlib import Path

from holdfast.keeper import processes
from holdfast.kit.files import private_folder

SHARED_MEMORY = Path("/dev/shm")
MARK = ".keeper"
"""The file that a keeper holds locked while it lives."""


def memory_root(run_id: str) -> Path:
    """The run's folder."""
    return SHARED_MEMORY / f"holdfast-{run_id}"


class Memory:
    """A run's folder, while its keeper lives."""

    def __init__(self) -> None:
        self._mark: int | None = None

    def hold(self, run_id: str) -> None:
        """Make it, and have nobody sweep it. Raises `OSError`."""
        if self._mark is None:
            root = memory_root(run_id)
            private_folder(root)
            self._mark = os.open(root / MARK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._mark, fcntl.LOCK_SH)

    def remove(self, run_id: str) -> None:
        shutil.rmtree(memory_root(run_id), ignore_errors=True)
        if self._mark is not None:
            os.close(self._mark)
            self._mark = None


def sweep_memory() -> list[Path]:
    """Remove the folders of runs of which no process lives; which ones it were."""
    folders = list(SHARED_MEMORY.glob("holdfast-*"))  # listed first: a run has a process, then it
    alive = live_runs()
    swept = []
    for folder in folders:
        if folder.name.removeprefix("holdfast-") in alive or not _has_no_keeper(folder):
            continue
        shutil.rmtree(folder, ignore_errors=True)  # another keeper may be sweeping it, too
        if not folder.exists():
            swept.append(folder)
    return swept


def _has_no_keeper(folder: Path) -> bool:
    """Whether a keeper made this folder, and is gone. What is another user's is theirs to sweep."""
    try:
        mark = os.open(folder / MARK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(mark)
    return True


def live_runs() -> set[str]:
    """Runs that have a process, this one's among them."""
    mine = os.environ.get(processes.RUN_MARK, "")
    return {mine} | {
        processes.environment_of(pid).get(processes.RUN_MARK, "") for pid in processes.marked()
    }

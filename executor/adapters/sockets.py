"""One folder for the sockets of all ranks' multiprocessing, which goes once the ranks are gone.

Python makes one for each process that needs it, such as each worker of a DataLoader, and a process
that is killed leaves it behind. A TMPDIR of our own would go for more than that: caches lie there
which the next attempt needs, torch's compiled kernels for one.

Called by `executor.ranks`; `telemetry.workers` has ranks use it. Must not fail a start: without it
Python makes its own.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.kit.logs import LazyLogger

PREFIX = "hold-"
"""As long as Python's own: paths of sockets (107 bytes at most) are no longer than without us."""

LOCK = ".holdfast"
"""In it, held by its executor: what nobody holds is a dead one's, and what has none is not ours."""

_log = LazyLogger()


class Sockets:
    """At most one folder, locked for as long as it or its executor lives: what a killed executor
    left is known by that, and removed by whichever makes or drops one there next.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lock = -1

    def make(self, env: Mapping[str, str], workdir: str) -> str:
        """A new folder, where ranks with `env` have their temporary files; "" without one."""
        self.drop()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_temporary(env, workdir)))
            self._lock = _locked(self._folder / LOCK, os.O_CREAT)
        except OSError as error:
            _log.warning("multiprocessing has folders of its own", why=str(error))
            self.drop()
            return ""
        sweep(self._folder.parent)
        return str(self._folder)

    def drop(self) -> None:
        """Remove it. No process may be left that uses it."""
        if self._folder is None:
            return
        _remove(self._folder)
        if self._lock >= 0:
            os.close(self._lock)
        sweep(self._folder.parent)
        self._folder, self._lock = None, -1


def sweep(place: Path) -> None:
    """Remove the folders there whose executors are dead."""
    for path in place.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # it is somebody's who lives, or another user's
            lock = _locked(path)
            _remove(path.parent)
            os.close(lock)


def _locked(path: Path, flags: int = 0) -> int:
    """A descriptor that holds it. Raises `OSError` where somebody else does, or it is gone."""
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(path)
    except OSError:
        os.close(lock)
        raise
    return lock


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return  # a cleaner of temporary files was first
    except OSError as error:
        _log.warning("sockets of ranks stay", folder=str(folder), why=str(error))


def _temporary(env: Mapping[str, str], workdir: str) -> str:
    """As Python's `tempfile` chooses in a rank."""
    named = (os.path.join(workdir, env.get(name) or "/") for name in ("TMPDIR", "TEMP", "TMP"))
    fit = (folder for folder in named if folder != "/" and os.access(folder, os.W_OK | os.X_OK))
    return next(fit, tempfile.gettempdir())

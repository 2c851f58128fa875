"""One folder for the sockets of all ranks' multiprocessing, which goes once the ranks are gone.

Python makes one for each process that needs it, such as each worker of a DataLoader, and a process
that is killed leaves it behind. A TMPDIR of our own would go for more than that: caches lie there
which the next attempt needs, torch's compiled kernels for one.

Called by `executor.ranks`; `telemetry.workers` has ranks use it. Must not fail a start: without it
Python makes its own.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.kit.logs import LazyLogger

PREFIX = "pymp-"
"""Python's own, so that the paths of sockets (107 bytes at most) are no longer than without us."""

_log = LazyLogger()


class Sockets:
    """`link` leads to the folder: an executor that is killed has it found by the next one."""

    def __init__(self, link: Path) -> None:
        self._link = link

    def make(self, env: Mapping[str, str], workdir: str) -> str:
        """A new folder, where ranks with `env` have their temporary files; "" without one."""
        self.drop()
        folder = ""
        try:
            self._link.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=_temporary(env, workdir))
            self._link.symlink_to(folder)
        except OSError as error:
            _log.warning("multiprocessing has folders of its own", why=str(error))
            if folder:
                os.rmdir(folder)
            return ""
        return folder

    def drop(self) -> None:
        """Remove it. No process may be left that uses it."""
        try:
            with suppress(FileNotFoundError):  # there is none, or a cleaner of /tmp was first
                shutil.rmtree(os.readlink(self._link))
            self._link.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("sockets of ranks stay", link=str(self._link), why=str(error))


def _temporary(env: Mapping[str, str], workdir: str) -> str:
    """As Python's `tempfile` chooses in a rank."""
    named = (os.path.join(workdir, env.get(name) or "/") for name in ("TMPDIR", "TEMP", "TMP"))
    fit = (folder for folder in named if folder != "/" and os.access(folder, os.W_OK | os.X_OK))
    return next(fit, tempfile.gettempdir())

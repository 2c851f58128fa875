"""A file that keeps room beside the journal, given up piece by piece while the disk is full.

Used by the journal: running jobs' recoveries still commit into that room, while `missing` says that
no new work should be accepted. Must not be touched from two threads.
"""

import os
import shutil
from pathlib import Path

from holdfast.driver.ports import NO_NEW_WORK

RESERVE_BYTES = 16 << 20
"""Some thousands of entries of a running job, and SQLite's write-ahead log of 1,000 pages twice."""

PIECES = 4
"""Whoever filled the disk may take a piece before the journal does: it gets the next one."""


class Reserve:
    """`size_bytes` of disk at `path`, really allocated."""

    def __init__(self, path: Path, *, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._kept_bytes = path.stat().st_size if path.exists() else 0
        self.missing()

    def release(self) -> bool:
        """Give a piece of the room up; False where there was none left to give, as where a person
        has deleted the file.
        """
        held = self._path.stat().st_size if self._path.exists() else 0
        self._keep(max(0, held - self._size_bytes // PIECES))
        return held > 0

    def _keep(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        if kept_bytes and self._path.exists():
            os.truncate(self._path, kept_bytes)
        else:
            self._path.unlink(missing_ok=True)

    def missing(self) -> str | None:
        """None while the room is kept; it is made again first where there is enough for it.

        Else the reason in a sentence.
        """
        if self._kept_bytes < self._size_bytes:
            self._make()
        if self._kept_bytes >= self._size_bytes:
            return None
        return (
            f"the disk under {self._path.parent} is full: {NO_NEW_WORK}. "
            f"Free at least {2 * self._size_bytes >> 20} MiB there."
        )

    def _make(self) -> None:
        """Twice the room has to be there, else it would be given up again at the next entry."""
        if shutil.disk_usage(self._path.parent).free < 2 * self._size_bytes:
            return
        try:
            with self._path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, self._size_bytes)
        except OSError:  # there was less than it seemed, as under a quota: what is kept stays
            self._keep(self._kept_bytes)
        else:
            self._kept_bytes = self._size_bytes

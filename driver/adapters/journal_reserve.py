"""A file that keeps room beside the journal, given up when the disk is full.

Used by the journal: running jobs' recoveries still commit into that room, while `missing` says that
no new work should be accepted. Must not be touched from two threads.
"""

import os
import shutil
from pathlib import Path

from holdfast.driver.ports import NO_NEW_WORK

RESERVE_BYTES = 16 << 20
"""Some thousands of entries of a running job, and SQLite's write-ahead log of 1,000 pages twice."""


class Reserve:
    """`size_bytes` of disk at `path`, really allocated."""

    def __init__(self, path: Path, *, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._held = path.exists() and path.stat().st_size == size_bytes
        self.missing()

    def release(self) -> bool:
        """Give the room up; False where there was none to give."""
        held, self._held = self._held, False
        self._path.unlink(missing_ok=True)
        return held

    def missing(self) -> str | None:
        """None while the room is kept; it is made again first where there is enough for it.

        Else the reason in a sentence.
        """
        if not self._held:
            self._make()
        if self._held:
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
            with self._path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._size_bytes)
        except OSError:
            self._path.unlink(missing_ok=True)
        else:
            self._held = True

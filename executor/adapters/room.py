"""Whether the disk that ranks write to has room for them to start.

Called by `executor.rendezvous` before an attempt, and by `executor.ranks` when a rank ended
without a word. Reads what the file system says of itself; a user's quota is not seen.
"""

import math
import os
from pathlib import Path

ROOM_BYTES = 16 << 20
"""Without so much free a rank that prints dies in its first steps; with less than a piece of the
journal's reserve (4 MiB) it would take what the driver needs to decide about it."""

SHARE = 4
"""On a small disk a quarter of it is room enough."""


LAST_WORDS_BYTES = 1 << 20
"""Where less is free a rank's last words were lost, or cut."""


def is_full(folder: Path) -> bool:
    """Whether nothing more can be written on its disk."""
    free, _ = _bytes_of(folder)
    return free < LAST_WORDS_BYTES


def to_free_mib(folder: Path) -> int:
    """MiB to free on its disk before ranks should start whose logs go there; 0 where there is room,
    or where nobody knows. Twice of what has to be free: the journal may take its reserve again.
    """
    free, size = _bytes_of(folder)
    needed = min(ROOM_BYTES, size // SHARE)
    return max(1, 2 * needed >> 20) if free < needed else 0


def _bytes_of(folder: Path) -> tuple[float, int]:
    """Free, and in all; free without end where the file system says nothing of it."""
    try:
        disk = os.statvfs(_there(folder))
    except OSError:
        return math.inf, 0
    size = disk.f_blocks * disk.f_frsize
    return (disk.f_bavail * disk.f_frsize if size else math.inf), size


def _there(folder: Path) -> Path:
    """The first folder from there upwards that is there: it is made on the same disk."""
    return next((each for each in (folder, *folder.parents) if each.exists()), folder)

"""Making a rank's slots before it saves, with all their pages there. Used by the agent's thread.

A page of a file in memory is cleared when it is first touched, given out or not: that takes several
times as long as to copy into it. Must neither take a lock that a rank would wait for, nor more than
a share of one core, nor memory that training may want. Must not load torch.
"""

import mmap
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from holdfast.checkpoint.rotation import SLOTS
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import NoRoom, Slot
from holdfast.kit import cgroup
from holdfast.kit.clock import Clock, SystemClock

PIECE_BYTES = 4 << 20
"""Touched at once; the agent's other threads wait for it, some milliseconds."""

SHARE = 0.5
"""Of one core, that touching takes at most: the ranks are at their first steps meanwhile."""

LEFT = 1
"""So much as this many slots stays free beside one that is made early, for training. A rank that
saves takes what it needs."""

Rest = Callable[[float], object]
"""Waits so many seconds."""


class Early:
    """The early slots of one job on this node, of these ranks. `tell` takes notes.

    `before`: that of an earlier order, whose pages need not be touched again.
    """

    def __init__(
        self,
        folders: Mapping[int, SlotFolder],
        tell: Callable[[str], None],
        *,
        clock: Clock | None = None,
        free_bytes: Callable[[], int | None] = cgroup.free_bytes,
        before: "Early | None" = None,
    ) -> None:
        self._folders = folders
        self._tell = tell
        self._clock = clock or SystemClock()
        self._free_bytes = free_bytes
        # Data file -> its inode and size then.
        self._touched: dict[Path, tuple[int, int]] = dict(before._touched) if before else {}
        self._making = Lock()
        self._left = False

    def fill(self, rest: Rest) -> None:
        """Make the slots that are missing, where their size is known, so that no save waits."""
        # The first of every rank before the second of one: where memory is short, all have some.
        for number in range(SLOTS):  # one for copies is made when it is needed
            for rank, folder in self._folders.items():
                slot, size_bytes = folder.slots[number], folder.room_bytes()
                if folder.is_copy:
                    continue
                if size_bytes and not self._make(rank, slot, size_bytes):
                    return
                self._touch(slot, rest)

    def leave(self) -> None:
        """Make no slot any more once this has returned: somebody may delete them."""
        with self._making:
            self._left = True

    def _make(self, rank: int, slot: Slot, size_bytes: int) -> bool:
        with self._making:
            if self._left:
                return False
            try:
                if not slot.data.exists():
                    self._check_memory(size_bytes)
                    slot.make(size_bytes)
            except (NoRoom, OSError) as error:
                self._tell(f"rank {rank}: a slot could not be made early: {error}")
                return False
        return True

    def _check_memory(self, size_bytes: int) -> None:
        free = self._free_bytes()
        if free is not None and free < (1 + LEFT) * size_bytes:
            raise NoRoom(
                f"it would take {size_bytes / 1e6:.1f} MB, and the node has not twice as much "
                "left. It is made when it is needed, and that save takes longer"
            )

    def _touch(self, slot: Slot, rest: Rest) -> None:
        """Have all pages of the slot there, whatever they hold, while its rank may use it."""
        try:
            fd = os.open(slot.data, os.O_RDONLY)
        except OSError:  # gone, or it cannot be had now: its rank waits for its pages
            return
        try:
            info = os.fstat(fd)
            known = (info.st_ino, info.st_size)
            if self._touched.get(slot.data) != known:
                for at in range(0, info.st_size, PIECE_BYTES):
                    if self._left:
                        return
                    rest(self._touch_piece(fd, at, min(PIECE_BYTES, info.st_size - at)))
            self._touched[slot.data] = known
        finally:
            os.close(fd)

    def _touch_piece(self, fd: int, at: int, size_bytes: int) -> float:
        """How long to rest after it, in seconds."""
        began_s = self._clock.monotonic_s()
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        with suppress(ValueError, OSError):  # emptied meanwhile; or there is no room to map it
            mmap.mmap(fd, size_bytes, flags, mmap.PROT_READ, offset=at).close()
        return (self._clock.monotonic_s() - began_s) * (1 / SHARE - 1)

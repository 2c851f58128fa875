"""The agent's care of a node's memory slots: hash, verify, fill early, drop. Must not load torch.

A snapshot counts only once its checksum is known, and from then on only while it still matches.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from holdfast.checkpoint.slots import NoRoom, Seal, Slot, SlotFolder
from holdfast.protocol.messages import Snapshot


class Memory:
    """The slots of one job on this node. `tell` takes notes for the executor."""

    def __init__(self, job: str, slots: Mapping[int, str], tell: Callable[[str], None]) -> None:
        self._job = job
        self._tell = tell
        self._folders = {rank: SlotFolder(Path(folder)) for rank, folder in slots.items()}
        self._verified: set[tuple[int, int, int]] = set()
        self._filling = Lock()
        self._left = False

    def look(self) -> tuple[Snapshot, ...]:
        """What may be restored from, by rank and newest first; hashes what is new."""
        found = []
        for rank, folder in sorted(self._folders.items()):
            for slot, seal in folder.sealed():
                try:
                    believed = seal.job == self._job and self._believe(rank, slot, seal)
                except OSError as error:
                    self._tell(f"rank {rank}: step {seal.step} cannot be checked: {error}")
                    continue
                if believed:
                    found.append(Snapshot(rank=rank, step=seal.step, epoch=seal.epoch))
        return tuple(found)

    def skipped(self, epoch: int) -> tuple[int, tuple[str, ...]]:
        """Saves that the ranks refused in this epoch, and why the last one of each."""
        told = [folder.skipped(epoch) for _, folder in sorted(self._folders.items())]
        return sum(count for count, _ in told), tuple(why for count, why in told if count)

    def fill(self) -> None:
        """Make the slots that are missing, where their size is known, so that no save waits."""
        for rank, folder in self._folders.items():
            size_bytes = folder.room_bytes()
            for slot in folder.slots if size_bytes else ():
                with self._filling:
                    if self._left:
                        return
                    try:
                        slot.make_room(size_bytes, replace=False)
                    except (NoRoom, OSError) as error:
                        self._tell(f"rank {rank}: a slot could not be made early: {error}")
                        return

    def leave(self) -> None:
        """Make no slot any more once this has returned: somebody may delete them."""
        with self._filling:
            self._left = True

    def _believe(self, rank: int, slot: Slot, seal: Seal) -> bool:
        key = (rank, *seal.age)
        if key in self._verified:
            return True
        with slot.locked(exclusive=False) as fd:
            if fd is None or slot.seal() != seal:
                return False
            if not slot.confirm(fd, seal):
                slot.break_seal()
                self._tell(
                    f"rank {rank}: the snapshot of step {seal.step} (epoch {seal.epoch}) in memory "
                    "has changed since it was sealed; it is not used"
                )
                return False
        self._verified.add(key)
        return True


def forget(folders: Mapping[int, str]) -> None:
    """Drop these ranks' slots, and the job's folder once it is empty."""
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # it has others yet, or is gone
            Path(folder).parent.rmdir()

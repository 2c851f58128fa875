"""The agent's care of a node's memory slots: look, tell, drop. Must not load torch, nor read data.

A snapshot counts only with its checksum; ranks and the store's writer compare it.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.checkpoint.early import Early
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal
from holdfast.kit.files import sweep_beside
from holdfast.protocol.messages import Snapshot


class Skips(NamedTuple):
    """How many saves were refused, how many one after another up to now by the rank that fares
    worst, and why the last one of each rank was.
    """

    total: int
    in_a_row: int
    reasons: tuple[str, ...]


class Memory:
    """The slots of one job on this node. `tell` takes notes for the executor.

    `before`: that of an earlier order. What it believed is not looked at again. A rank compares the
    checksum of the one snapshot that it restores: to read all slots of large ranks takes seconds.
    """

    def __init__(
        self,
        job: str,
        slots: Mapping[int, str],
        tell: Callable[[str], None],
        *,
        before: "Memory | None" = None,
    ) -> None:
        self._job = job
        self._tell = tell
        self._folders = {rank: SlotFolder(Path(folder)) for rank, folder in slots.items()}
        self._verified: set[tuple[int, int, int]] = set()
        if before is not None and before._job == job:
            self._verified |= before._verified
        for folder in self._folders.values():
            sweep_beside(folder.folder)
        self.early: Early = Early(self._folders, tell, before=before.early if before else None)

    def look(self) -> tuple[Snapshot, ...]:
        """What may be restored from, by rank and newest first."""
        found = []
        for rank, folder in sorted(self._folders.items()):
            self._free_unreadable(rank, folder)
            for slot, seal in folder.sealed():
                try:
                    believed = seal.job == self._job and self._believe(rank, slot, seal)
                except OSError as error:
                    self._tell(f"rank {rank}: step {seal.step} cannot be checked: {error}")
                    continue
                if believed:
                    found.append(Snapshot(rank=rank, step=seal.step, epoch=seal.epoch))
        return tuple(found)

    def skipped(self, epoch: int) -> Skips:
        """Saves that the ranks refused in this epoch."""
        told = [folder.skipped(epoch) for _, folder in sorted(self._folders.items())]
        return Skips(
            total=sum(each.count for each in told),
            in_a_row=max((each.in_a_row for each in told), default=0),
            reasons=tuple(each.why for each in told if each.count),
        )

    def _free_unreadable(self, rank: int, folder: SlotFolder) -> None:
        for slot in folder.slots:
            if slot.free_unreadable():
                self._tell(
                    f"rank {rank}: the seal of {slot.data.name} in memory has changed since it was "
                    "put; the slot is not used, and is written anew"
                )

    def _believe(self, rank: int, slot: Slot, seal: Seal) -> bool:
        key = (rank, *seal.age)
        if key in self._verified:
            return True
        with slot.locked(exclusive=False) as fd:
            if fd is None or slot.seal() != seal:
                return False
            if not slot.is_known(fd, seal):
                slot.break_seal()
                self._tell(
                    f"rank {rank}: the snapshot of step {seal.step} in memory "
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

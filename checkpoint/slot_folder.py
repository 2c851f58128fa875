"""All slots of a rank, and the few words that rank and agent leave each other beside them.

Used by the rank, by the node's agent and by its executor. Must not load torch.
"""

from contextlib import suppress
from pathlib import Path

from holdfast.checkpoint import words
from holdfast.checkpoint.rotation import FOR_PEERS, SLOTS
from holdfast.checkpoint.slots import Slot, free_bytes
from holdfast.checkpoint.words import Seal
from holdfast.kit import cgroup


def has_snapshots(folder: Path) -> bool:
    """Whether a rank has sealed any here; what they are is not looked at."""
    return any(folder.glob("slot-*.seal"))


class SlotFolder:
    """All slots of one rank, and the few words that rank and agent leave each other there."""

    def __init__(self, folder: Path, *, count: int = SLOTS + FOR_PEERS) -> None:
        self.folder = folder
        self.slots = tuple(Slot(folder, number) for number in range(count))

    def sealed(self) -> list[tuple[Slot, Seal]]:
        """The slots that hold something, newest first."""
        found = [(slot, seal) for slot in self.slots if (seal := slot.seal())]
        return sorted(found, key=lambda pair: pair[1].age, reverse=True)

    def find(self, *, step: int, epoch: int) -> tuple[Slot, Seal] | None:
        """The slot with the snapshot of this step and epoch."""
        wanted = (epoch, step)
        return next((pair for pair in self.sealed() if pair[1].age == wanted), None)

    def room_bytes(self) -> int:
        """What one slot needs, as far as is known: the largest there is, or what was asked for."""
        asked = words.read(self.folder / "wanted", words.ROOM) or 0
        return max(asked, *(slot.room_bytes for slot in self.slots))

    def mark_copy(self) -> None:
        """Say that these are copies of another node's rank: no slots are made for them early."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "copy").touch()

    @property
    def is_copy(self) -> bool:
        """Whether another node's rank has put these here, and none of this node since."""
        return (self.folder / "copy").exists()

    def node_room_bytes(self) -> int:
        """For slots of this job on this node: what is free, and what all its ranks' slots have."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = 0
        for path in self.folder.parent.glob("*/slot-*.data"):
            with suppress(FileNotFoundError):
                own += path.stat().st_size
        host = cgroup.free_bytes()
        free = free_bytes(self.folder)
        return own + (free if host is None else min(free, host))

    def ask_room(self, size_bytes: int) -> None:
        """Tell the agent how large slots should be, so that it makes and fills them early."""
        self._write("wanted", size_bytes)
        (self.folder / "copy").unlink(missing_ok=True)

    def uploaded(self) -> tuple[int, int]:
        """(epoch, step) of the last snapshot that the agent has dealt with for the store."""
        mark = words.read(self.folder / "drained", words.UPLOADED)
        return (mark.epoch, mark.step) if mark else (-1, -1)

    def copied(self) -> tuple[int, int] | None:
        """(epoch, step) of the last snapshot of which another node has a copy."""
        mark = words.read(self.folder / "copied", words.UPLOADED)
        return (mark.epoch, mark.step) if mark else None

    def put_copied(self, *, epoch: int, step: int) -> None:
        self._write("copied", words.Uploaded(epoch, step))

    def put_uploaded(self, *, epoch: int, step: int) -> None:
        self._write("drained", words.Uploaded(epoch, step))

    def skipped(self, epoch: int) -> words.Skipped:
        """The saves that the rank refused in this epoch."""
        record = words.read(self.folder / "skipped", words.SKIPPED)
        return record if record and record.epoch == epoch else words.Skipped(epoch, 0, 0, "")

    def put_skipped(self, skipped: words.Skipped) -> None:
        self._write("skipped", skipped)

    def _write(self, name: str, word: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        words.write(self.folder / name, word)

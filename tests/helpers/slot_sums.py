"""The checksum of what a slot holds now, for tests that compare it with the one that is kept."""

from holdfast.checkpoint import digest
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal


def sum_of(slot: Slot, fd: int, seal: Seal) -> str | None:
    """Under this seal; None where its header is another, or the data is cut."""
    data = slot.contents(fd, seal)
    return None if data is None else digest.of_all(seal, data, threads=1)

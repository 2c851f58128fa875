"""What snapshots in memory are going to take on a node, said before the first step. Pure.

Called by the checkpointer of a node's first rank, once it knows the size of its state.
"""

import msgspec

from holdfast.checkpoint.rotation import SLOTS

_WITH = {
    3: "each rank does with 3 slots",
    2: "each rank has 2 slots: the older of its two newest snapshots is written over while the "
    "next is made, and a fault in that moment takes the job back to the store",
    1: "each rank has 1 slot: its only snapshot is written over while the next is made, and a "
    "fault in that moment takes the job back to the store",
    0: "snapshots are skipped: a fault takes the job back to the store",
}


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node. `room_bytes`: free for slots, and in slots of this job already. `for_copies`:
    further slots a rank, where nodes keep copies of each other's.
    """

    state_bytes: int
    ranks: int
    room_bytes: int
    place: str
    for_copies: int = 0

    @property
    def slots(self) -> int:
        """How many each rank can have."""
        there = self.room_bytes // max(1, self.state_bytes * self.ranks)
        return max(0, min(SLOTS, there - self.for_copies))

    @property
    def enough(self) -> bool:
        return self.slots == SLOTS

    def __str__(self) -> str:
        wanted = (SLOTS + self.for_copies) * self.state_bytes * self.ranks
        slots = f"{SLOTS} slots" + (f" and {self.for_copies} for copies" if self.for_copies else "")
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        then = "enough" if self.enough else f"{_WITH[self.slots]}. Give it {_gb(wanted)}"
        return (
            f"snapshots in memory: {_gb(self.state_bytes)} a rank, {slots}, {ranks} on this "
            f"node: {_gb(wanted)}; {self.place} has {_gb(self.room_bytes)} for them: {then}"
        )


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.3g} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.3g} MB"

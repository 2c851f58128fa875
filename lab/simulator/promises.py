"""What people were told yes to, as they remember it.

Kept by the world. Noted once it is acknowledged; dropped as soon as somebody asks for the contrary,
for what came of that is not known where no answer came.
"""

import math


class Promises:
    """Of one world."""

    def __init__(self) -> None:
        self.resting: dict[str, int] = {}  # by job that is to rest: the last epoch that may train
        self.free_by: dict[str, float] = {}  # by node that is to be free: when it has to be
        self.born: dict[str, int] = {}  # by job: the last epoch before its name was used again

    def rest(self, job: str, epoch: int) -> None:
        self.resting.setdefault(job, epoch)

    def go_on(self, job: str) -> None:
        self.resting.pop(job, None)

    def announce(self, node: str, by_s: float | None) -> None:
        self.free_by[node] = math.inf if by_s is None else by_s

    def withdraw(self, node: str) -> None:
        self.free_by.pop(node, None)

    def begin_life(self, job: str, epoch: int) -> None:
        """Another job has the name from now on: what was before is none of its own."""
        self.born[job] = epoch
        self.go_on(job)

    def is_own(self, job: str, epoch: int) -> bool:
        """Whether the epoch is of the job that has the name now."""
        return epoch > self.born.get(job, -1)

    def forget(self) -> None:
        """What was acknowledged lately may be lost: a journal was put back."""
        self.resting.clear()
        self.free_by.clear()

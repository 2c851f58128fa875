"""What a look at the store shows in the simulated world: late, in part, or with one file sick.

Kept by the world, which knows what is really stored. A point is (step, epoch).
"""

from holdfast.protocol.messages import Stored

Point = tuple[int, int]


class StoreLookup:
    """The ways in which a list of a store is not what is in it."""

    def __init__(self) -> None:
        self.looks_s = 0.0  # how long a look takes
        self.lagging: dict[str, set[Point]] = {}  # by job: what is shown until it catches up
        self.sick: set[tuple[str, Point]] = set()  # cannot be read
        self.hung: frozenset[str] = frozenset()  # nodes where a look comes to no end
        self.unmounted: frozenset[str] = frozenset()  # and those where a look finds nothing
        self.was_sick: set[tuple[str, Point]] = set()  # and was told so once

    def repair(self) -> None:
        self.looks_s = 0.0
        self.lagging = {}
        self.hung, self.unmounted = frozenset(), frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether each node sees it, at once."""
        return not (self.looks_s or self.hung or self.unmounted)

    def hide(self, job: str, stored: set[Point], *, newest: int) -> None:
        """Show no more than is there now, without the `newest` so many."""
        self.lagging[job] = set(sorted(stored)[: len(stored) - newest])

    def show(self, job: str) -> None:
        self.lagging.pop(job, None)

    def look(self, job: str, stored: set[Point]) -> tuple[set[Point], tuple[Stored, ...]]:
        """What can be read, and what is there and cannot."""
        shown = stored & self.lagging.get(job, stored)
        sick = {point for point in shown if (job, point) in self.sick}
        if sick and shown > sick:
            self.was_sick |= {(job, point) for point in sick}
        damaged = tuple(Stored(step=step, epoch=epoch) for step, epoch in sorted(sick))
        return shown - sick, damaged

    def readable(self, job: str, stored: set[Point]) -> bool:
        """Whether one of these could be read, or there is none."""
        return not stored or any((job, point) not in self.sick for point in stored)

"""The nodes there are to give out, and of those that nobody can have: whose they are, or why not.

Made by `allocation` each time it gives out nodes, for all who wait together. Pure. It asks the
`Census`: a look along all nodes would cost the most.
"""

from collections import Counter
from collections.abc import Iterable

from holdfast.driver.core.state.fit import Reason
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.turn import Turn


class Supply:
    """What one turn has to give out: `free`, those that are left."""

    def __init__(self, turn: Turn) -> None:
        self.free = free_nodes(turn)
        self.others = Others(turn)

    def take_out(self, nodes: Iterable[str]) -> None:
        taken = set(nodes)
        self.free = [node for node in self.free if node not in taken]


def free_nodes(turn: Turn) -> list[str]:
    """Nodes that a job may be given, those with an executor first, then by rack and name."""
    return turn.census.free(turn.now)


class Others:
    """Nodes that are not to be had, as they are told of and counted."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @property
    def known(self) -> int:
        return self._turn.census.known

    @property
    def coming(self) -> list[str]:
        return self._turn.census.coming(self._turn.now)

    def barred(self, job: Job, most: int) -> tuple[int, dict[str, Reason]]:
        """How many of those that nobody has are not the job's, and of so many why: those last that
        come back by themselves."""
        return self._turn.census.barred(job, self._turn.now, most)

    def owners(self, job: Job) -> Counter[str]:
        """Who has how many of the nodes that the job could have."""
        return self._turn.census.owners(job, tuple(self._turn.jobs), self._turn.now)

"""A cause: what goes wrong in a case, again and again until it is really gone.

The base of those in `causes_nodes` and `causes_code`. Says what befalls an attempt next; knows
nothing of who plays, nor of what is done about it but what the next attempt shows.
"""

from collections.abc import Collection
from random import Random

from holdfast.lab.simulator.cases.trouble import STEP_S, Attempt, Trouble


class Cause:
    """One per life. `names`: what it may rightly be called; `places`: how many nodes are guilty."""

    names: frozenset[str] = frozenset()
    places = 0
    hopeless = False  # to give the job up is right, and nothing else is
    blocks = False  # while it is there the job gets nowhere
    exams_find = 0.0  # chance that a test of a guilty node, or of a guilty pair, fails
    least_nodes = 1
    versions = 1
    lasts_s = 8 * 3_600.0  # virtual, how long it is played at the most

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0  # how often it struck
        self.guilty: tuple[str, ...] = ()

    def begins(self, nodes: Collection[str]) -> None:
        """The job has its first nodes: some of them are the guilty ones."""
        self.guilty = tuple(sorted(self.rng.sample(sorted(nodes), min(self.places, len(nodes)))))

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        """What befalls the attempt from this step on; None: nothing more."""
        raise NotImplementedError

    def struck(self, trouble: Trouble) -> None:
        """It came to that."""
        self.count += 1

    def among(self, attempt: Attempt) -> tuple[str, ...]:
        """The guilty nodes that the attempt runs on."""
        return tuple(node for node in self.guilty if node in attempt.nodes)

    def curable(self, nodes: int, wanted: int) -> bool:
        """Whether a job that wants so many of the nodes that there are can do without it."""
        return nodes - len(self.guilty) >= wanted


def steps_s(step: int, aim: int) -> float:
    """Seconds of training until a step is done."""
    return max(0, aim - step) * STEP_S

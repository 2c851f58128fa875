"""Causes that are in nodes, or between them: gone once the job does without the guilty."""

from random import Random

from holdfast.lab.simulator.cases.cause import Cause, steps_s
from holdfast.lab.simulator.cases.trouble import Attempt, Manner, Trouble

HOUR_S = 3_600.0


class Lemon(Cause):
    """A rank on one node dies again and again; its tests pass."""

    names = frozenset({"node"})
    places = 1
    within_s = (4.0, 8.0)
    blocks = True

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there:
            return None
        after_s = self.rng.uniform(*self.within_s)
        return Trouble(after_s=after_s, manner=Manner.SIGNAL, node=self.rng.choice(there))


class HourlyLemon(Lemon):
    """Each hour or so."""

    within_s = (0.7 * HOUR_S, 1.3 * HOUR_S)
    blocks = False
    lasts_s = 24 * HOUR_S


class TwoHourlyLemon(Lemon):
    """Each two hours or so."""

    within_s = (1.4 * HOUR_S, 2.6 * HOUR_S)
    blocks = False
    lasts_s = 48 * HOUR_S


class TwoLemons(Lemon):
    """Two of four nodes, each of which lets ranks die within a minute."""

    places = 2
    least_nodes = 4
    within_s = (4.0, 60.0)


class LemonAtStep(Cause):
    """A rank on one node dies at one step, always; elsewhere that step is done."""

    names = frozenset({"node"})
    places = 1
    blocks = True

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.at = rng.randint(5, 2_000)

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there or step > self.at:
            return None
        left_s = steps_s(step, self.at)
        return Trouble(after_s=left_s, manner=Manner.SIGNAL, node=there[0])


class Hanging(Cause):
    """Ranks stop for ever now and then, and tests find why in some of these lives."""

    exams_find = 0.3

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.mean_s = rng.choice((30.0, 300.0, 1_200.0))
        self.blocks = self.mean_s < 60.0

    def hangs(self, node: str | None) -> Trouble:
        after_s = self.rng.expovariate(1 / self.mean_s)
        return Trouble(after_s=after_s, manner=Manner.HANG, node=node)


class BadLink(Hanging):
    """Two nodes lose what they send each other now and then: the job hangs, and the detectors name
    one of the two, or nobody."""

    names = frozenset({"link"})
    places = 2
    least_nodes = 2

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if len(there) < 2:
            return None
        return self.hangs(self.rng.choice((*there, None)))

    def curable(self, nodes: int, wanted: int) -> bool:
        return nodes - 1 >= wanted


class HangingNode(Hanging):
    """Ranks on one node stop for ever now and then; the detectors name it, or nobody."""

    names = frozenset({"node"})
    places = 1

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there:
            return None
        return self.hangs(self.rng.choice((*there, *there, None)))


class Neighbour(Cause):
    """Somebody else's processes on one node take its memory, and a rank there is killed for it."""

    names = frozenset({"node"})
    places = 1

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there:
            return None
        after_s = self.rng.uniform(60.0, 1_800.0)
        return Trouble(after_s=after_s, manner=Manner.OUT_OF_MEMORY, node=there[0])


class BadMemory(Cause):
    """What ranks on one node compute is wrong now and then: they raise there, with the same words
    at other steps."""

    names = frozenset({"node"})
    places = 1
    exams_find = 0.3

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there:
            return None
        after_s = self.rng.uniform(60.0, 1_800.0)
        words = "ValueError: index is out of range"
        return Trouble(after_s=after_s, manner=Manner.EXCEPTION, node=there[0], words=words)


class FlappingLink(Cause):
    """A node is cut off each five minutes, and soon back."""

    names = frozenset({"node"})
    places = 1

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        there = self.among(attempt)
        if not there:
            return None
        return Trouble(
            after_s=self.rng.uniform(240.0, 360.0),
            manner=Manner.LOST,
            node=there[0],
            lasts_s=self.rng.uniform(10.0, 40.0),
        )

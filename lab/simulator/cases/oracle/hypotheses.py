"""What the oracle holds possible, and how likely each makes what was observed.

One density a case: of the next fault in time, times the chance of its manner and place. The numbers
are those of the causes. Beside its own cause each may have met an unrelated fault.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from math import exp, log

import msgspec

from holdfast.lab.simulator.cases.drawing import CAUSES
from holdfast.lab.simulator.cases.oracle.observed import History, Observed
from holdfast.lab.simulator.cases.trouble import Manner

UNRELATED = 1e-6
"""Density, a second, of a fault that has another cause: one in a dozen days."""
LAST_STEP = 2_000.0


class Hypothesis(msgspec.Struct, frozen=True):
    """A case, and the guilty nodes as far as they were named."""

    case: str
    who: tuple[str, ...] = ()


Density = Callable[[Hypothesis, Observed, History], float]


def _anywhere(seen: Observed) -> float:
    return 1.0 / len(seen.nodes)


def _passing(h: Hypothesis, seen: Observed, before: History) -> float:
    manners = {Manner.SIGNAL: 0.5, Manner.EXCEPTION: 0.25, Manner.HANG: 0.25}
    plain = seen.manner is Manner.EXCEPTION and not seen.device
    if before or plain or seen.node is None:
        return 0.0
    soon_or_late = (seen.within(1.0, 60.0) + seen.within(60.0, 3_600.0)) / 2
    return manners.get(seen.manner, 0.0) * soon_or_late * _anywhere(seen)


def _of_node(manner: Manner, low_s: float, high_s: float) -> Density:
    def density(h: Hypothesis, seen: Observed, before: History) -> float:
        if seen.manner is not manner or seen.node not in h.who or seen.device:
            return 0.0
        there = sum(node in seen.nodes for node in h.who)
        return seen.within(low_s, high_s) / there

    return density


def _two_lemons(h: Hypothesis, seen: Observed, before: History) -> float:
    if len(seen.nodes) != 4 or seen.manner is not Manner.SIGNAL or seen.node not in h.who:
        return 0.0
    return seen.within(4.0, 60.0) / 2


def _lemon_at_step(h: Hypothesis, seen: Observed, before: History) -> float:
    if seen.manner is not Manner.SIGNAL or seen.node not in h.who:
        return 0.0
    return _at_one_step(seen, next((each for each in before if each.node in h.who), None))


def _at_one_step(seen: Observed, first: Observed | None) -> float:
    if first is None:
        return seen.within(0.0, LAST_STEP)
    return 1.0 if seen.step == first.step else 0.0


MEANS_S = (30.0, 300.0, 1_200.0)


def _hanging(h: Hypothesis, seen: Observed, before: History) -> float:
    there = h.who[0] in seen.nodes and seen.node in (None, *h.who)
    if seen.manner is not Manner.HANG or not there:
        return 0.0
    share = 1 if seen.node is None else 2
    return sum(seen.about(mean_s) for mean_s in MEANS_S) * share / 9


def _link(h: Hypothesis, seen: Observed, before: History) -> float:
    if seen.manner is not Manner.HANG or not (seen.node is None or seen.node in h.who):
        return 0.0
    return sum(seen.about(mean_s) for mean_s in MEANS_S) / 9


def _crashing(h: Hypothesis, seen: Observed, before: History) -> float:
    if seen.manner is not Manner.SIGNAL:
        return 0.0
    return seen.within(200.0, 400.0) * _anywhere(seen)


def _hanging_code(h: Hypothesis, seen: Observed, before: History) -> float:
    if seen.manner is not Manner.HANG:
        return 0.0
    share = 1 / 3 if seen.node is None else 2 / 3 * _anywhere(seen)
    return seen.within(200.0, 400.0) * share


def _of_code(manner: Manner, *, once: bool = False) -> Density:
    def density(h: Hypothesis, seen: Observed, before: History) -> float:
        if seen.manner is not manner or seen.device or (once and before):
            return 0.0
        if before and seen.place != before[0].place:
            return 0.0
        if not before:
            return _at_one_step(seen, None) * _anywhere(seen)
        return _at_one_step(seen, before[0])

    return density


def _version(h: Hypothesis, seen: Observed, before: History) -> float:
    if seen.version < 2 or seen.device or seen.manner not in (Manner.SIGNAL, Manner.EXCEPTION):
        return 0.0
    return (seen.within(5.0, 60.0) + seen.within(60.0, 900.0)) / 4 * _anywhere(seen)


def _point(h: Hypothesis, seen: Observed, before: History) -> float:
    if not before:
        first = seen.manner is Manner.SIGNAL
        return seen.within(1_200.0, 3_600.0) * _anywhere(seen) if first else 0.0
    dies = seen.manner in (Manner.SIGNAL, Manner.EXCEPTION) and not seen.device
    return 0.5 * _anywhere(seen) if seen.at_start and dies else 0.0


def _by_manner(manner: Manner) -> Density:
    return lambda h, seen, before: float(seen.manner is manner)


HOUR_S = 3_600.0
DENSITIES: dict[str, Density] = {
    "passing": _passing,
    "lemon": _of_node(Manner.SIGNAL, 4.0, 8.0),
    "lemon-hourly": _of_node(Manner.SIGNAL, 0.7 * HOUR_S, 1.3 * HOUR_S),
    "lemon-2-hourly": _of_node(Manner.SIGNAL, 1.4 * HOUR_S, 2.6 * HOUR_S),
    "lemon-at-step": _lemon_at_step,
    "two-lemons": _two_lemons,
    "hanging-node": _hanging,
    "bad-link": _link,
    "crashing-code": _crashing,
    "hanging-code": _hanging_code,
    "user-once": _of_code(Manner.EXCEPTION, once=True),
    "user-always": _of_code(Manner.EXCEPTION),
    "crash-at-step": _of_code(Manner.SIGNAL),
    "exit-zero": _of_code(Manner.EXIT_ZERO),
    "too-large": _of_code(Manner.OUT_OF_MEMORY),
    "neighbour": _of_node(Manner.OUT_OF_MEMORY, 60.0, 1_800.0),
    "bad-version": _version,
    "poisoned-point": _point,
    "evaluation": _by_manner(Manner.PAUSE),
    "flapping": _of_node(Manner.LOST, 240.0, 360.0),
    "silence": _by_manner(Manner.SILENCE),
    "bad-memory": _of_node(Manner.EXCEPTION, 60.0, 1_800.0),
}
ONE_NODE = frozenset(name for name, cause in CAUSES.items() if cause.places == 1)
TWO_NODES = frozenset(name for name, cause in CAUSES.items() if cause.places == 2)


MOST_NAMED = 6
"""Nodes that are suspected at all: a guilty one is soon among those named most often."""


class Belief:
    """All that was observed, and the chance of each hypothesis. Scores are carried on."""

    def __init__(self) -> None:
        self.history: History = ()
        self._before: History = ()  # the last one
        self.named: Counter[str] = Counter()
        """How often each node was, in the order in which they first were."""
        self._chances: dict[Hypothesis, float] = {}  # since the last one, once they are asked for
        self._scores: dict[Hypothesis, tuple[int, float]] = {}  # of so many observations

    def observe(self, seen: Observed) -> None:
        self._before, self.history = self.history, (*self.history, seen)
        self.named.update(filter(None, [seen.node]))

        self._chances = {}

    def posterior(self) -> dict[Hypothesis, float]:
        """The chance of each hypothesis, given all that was observed."""
        self._chances = self._chances or self._judged()
        return self._chances

    def _judged(self) -> dict[Hypothesis, float]:
        scores = {each: self._score(each, prior) for each, prior in self._possible()}
        most = max(scores.values())
        weights = {each: exp(score - most) for each, score in scores.items()}
        total = sum(weights.values())
        return {each: weight / total for each, weight in weights.items() if weight > 1e-9 * total}

    def _possible(self) -> Iterator[tuple[Hypothesis, float]]:
        """With its prior: each case is as likely; of one that is in nodes each node, or pair."""
        named = [node for node, _ in self.named.most_common(MOST_NAMED)]
        nodes = len(self.history[0].nodes)
        for case in DENSITIES:
            if case in ONE_NODE:
                for node in named:
                    yield Hypothesis(case, (node,)), 1.0 / nodes
            elif case in TWO_NODES and nodes > 1:
                for node in named:  # and another one that was not named yet
                    yield Hypothesis(case, (node,)), 2.0 / nodes
                for two in combinations(sorted(named), 2):
                    yield Hypothesis(case, two), 2.0 / (nodes * (nodes - 1))
            elif case not in TWO_NODES:
                yield Hypothesis(case), 1.0

    def _score(self, hypothesis: Hypothesis, prior: float) -> float:
        done, score = self._scores.get(hypothesis, (0, log(prior)))
        density = DENSITIES[hypothesis.case]
        for number in range(done, len(self.history)):
            seen = self.history[number]
            unrelated = UNRELATED / len(seen.nodes)
            last = number == len(self.history) - 1
            before = self._before if last else self.history[:number]
            score += log(density(hypothesis, seen, before) + unrelated)
        self._scores[hypothesis] = (len(self.history), score)
        return score

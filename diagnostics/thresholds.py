"""What a healthy node must reach: from the job's node class, or from its fellows. Pure."""

from collections.abc import Iterable, Mapping
from math import exp, inf, isfinite, log
from statistics import median

import msgspec

from holdfast.diagnostics.registry import TESTS, Test, tests_of
from holdfast.protocol.messages import DiagnosticResult


class Thresholds(msgspec.Struct, frozen=True):
    """Least values that pass, by test; 0, or none, lets every finished test pass."""

    least: dict[str, float] = {}

    def of(self, test: str) -> float:
        return self.least.get(test, 0.0)

    def alone(self) -> dict[str, float]:
        """What a node has to reach that is tested with nobody beside it, as a node class."""
        return {
            test.threshold: self.of(test.name)
            for test in tests_of(1, thorough=True)
            if test.threshold
        }


class Known(msgspec.Struct, frozen=True):
    """Least values by test: `bounds` that a person had measured, and `priors`, which count where
    there are too few fellows. See `figures`."""

    bounds: Mapping[str, float] = {}
    priors: Mapping[str, float] = {}


def thresholds(
    results: Iterable[DiagnosticResult],
    node_class: Mapping[str, float] | None = None,
    known: Known | None = None,
) -> Thresholds:
    """The node class's values, by the names that it has for them, else what is `known` of healthy
    nodes, else a share of what the good reach.

    That is asked of each node's *best* value, the lowest speed of it that explains all its edges:
    in a circle of three with one slow node, two of three edges are slow, but two of three nodes
    have a fast one. Raises `ValueError` for a name that is no test's.
    """
    told, named = tuple(results), of_class(node_class or {}).least
    known = known or Known()
    least = {
        test.name: named.get(test.name)
        or test.least
        or known.bounds.get(test.name)
        or _from_fellows(told, test, known.priors.get(test.name, 0.0))
        for test in TESTS.values()
    }
    return Thresholds(least)


def of_class(node_class: Mapping[str, float]) -> Thresholds:
    """What the node class says, or whoever names a test, and nothing else. Raises `ValueError` as
    `thresholds` does."""
    tests = {test.bounded_as: test.name for test in TESTS.values() if test.bounded_as}
    for name in node_class:
        if name not in tests:
            raise ValueError(f"{name}: no test's threshold. Name one of {', '.join(tests)}.")
    return Thresholds({tests[name]: value for name, value in node_class.items() if value > 0})


def _from_fellows(results: tuple[DiagnosticResult, ...], test: Test, prior: float) -> float:
    good = sorted(value for value in reached(results, test).values() if value > 0)
    if not good or (prior and len(good) < FELLOWS):
        return prior
    place = max(1, int(GOOD * (len(good) - 1)))
    reference = good[min(place, len(good) - 1)]
    return reference * max(test.share_of_median, _share(good, reference, test))


def reached(results: tuple[DiagnosticResult, ...], test: Test) -> dict[str, float]:
    """The best of each node that was told twice: by both ends, or in two rounds. Else one lie would
    be what all have to reach."""
    runs: dict[tuple[str, int, tuple[str, ...]], float] = {}
    ended = [r for r in results if r.test == test.name and r.ok and r.value is not None]
    mine = [r for r in ended if isfinite(r.value or 0.0)]  # what is no number is nobody's measure
    for each in mine:
        run = (each.id, each.round, each.members or (each.node,))
        runs[run] = min(runs.get(run, inf), each.value or 0.0)
    told: dict[str, list[float]] = {}
    for each in mine:
        run = (each.id, each.round, each.members or (each.node,))
        told.setdefault(each.node, []).append(runs[run])
    confirmed = 1 if test.group > 1 else 2
    return {node: sorted(values)[-min(confirmed, len(values))] for node, values in told.items()}


GOOD = 0.75
"""The reference is not the median but what the better quarter reaches: of four nodes two may be
slow, and of two one."""
FELLOWS = 5
"""Of fewer how far they differ says little."""
SPREADS = 5.0
"""A healthy node reaches the reference but for so many standard deviations. Normal ones are beyond
it once in three million."""


def _share(good: list[float], reference: float, test: Test) -> float:
    """What share of the reference passes, by how far the good are apart; 0 where it is unknown."""
    alike = [value for value in good if value > test.share_of_median * reference]
    spread = 1.4826 * median(abs(log(value / reference)) for value in alike)
    return share_that_passes(test, spread, len(good))


def share_that_passes(test: Test, spread: float, nodes: int) -> float:
    """The same, by the spread of so many nodes: half the speed is seen, and what a shared machine
    takes is not called bad."""
    return min(test.strictest, exp(-SPREADS * spread)) if nodes >= FELLOWS else 0.0

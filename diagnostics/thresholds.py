"""What a healthy node must reach: from the job's node class, or from its fellows. Pure."""

from collections.abc import Iterable, Mapping
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
        return {test.threshold: self.of(test.name) for test in tests_of(1) if test.threshold}


def thresholds(
    results: Iterable[DiagnosticResult], node_class: Mapping[str, float] | None = None
) -> Thresholds:
    """The node class's values, by the names that it has for them, else a share of the median.

    The median is over each node's *best* value: in a circle of three with one slow node, two of
    three edges are slow, but two of three nodes have a fast one. Raises `ValueError` for a name
    that is no test's.
    """
    known, named = tuple(results), of_class(node_class or {}).least
    least = {
        test.name: named.get(test.name) or _from_fellows(known, test) for test in TESTS.values()
    }
    return Thresholds(least)


def of_class(node_class: Mapping[str, float]) -> Thresholds:
    """What the node class says, and nothing else. Raises `ValueError` as `thresholds` does."""
    tests = {test.threshold: test.name for test in TESTS.values() if test.threshold}
    for name in node_class:
        if name not in tests:
            raise ValueError(f"{name}: no test's threshold. Name one of {', '.join(tests)}.")
    return Thresholds({tests[name]: value for name, value in node_class.items() if value > 0})


def _from_fellows(results: tuple[DiagnosticResult, ...], test: Test) -> float:
    best: dict[str, float] = {}
    for result in results:
        if result.test == test.name and result.ok and result.value is not None:
            best[result.node] = max(best.get(result.node, 0.0), result.value)
    return test.share_of_median * median(best.values()) if best else 0.0

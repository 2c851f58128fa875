"""What was asked of whom, what came back, and what it had to reach. Pure.

Called by `verdict` and by what reads one test for it: `one_node` and `node_pairs`.
"""

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.diagnostics.registry import TESTS, Part, Test
from holdfast.diagnostics.thresholds import Thresholds
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

Orders = Mapping[str, tuple[DiagnosticOrder, ...]]
Pair = tuple[str, str]


class Answers(msgspec.Struct, frozen=True):
    """The results of an exam, by who gave them in which round of which test."""

    orders: Orders
    results: Mapping[tuple[str, str, int], DiagnosticResult]
    thresholds: Thresholds

    def tests(self, group: int) -> list[Test]:
        """Those of so many nodes that somebody was to run, in the order of the registry."""
        asked = {order.test for orders in self.orders.values() for order in orders}
        return [test for test in TESTS.values() if test.group == group and test.name in asked]

    def of(self, node: str, test: Test, turn: int) -> DiagnosticResult | None:
        return self.results.get((node, test.name, turn))

    def rounds(self, node: str, test: Test) -> list[int]:
        """In which rounds the node was to run the test."""
        return [order.round for order in self.orders[node] if order.test == test.name]

    def passed(self, result: DiagnosticResult) -> bool | None:
        return passes(result, self.thresholds.of(result.test))

    def heard(self, node: str) -> bool:
        """Whether the node gave any result."""
        return any(name == node for name, _, _ in self.results)


class PairRun(msgspec.Struct, frozen=True):
    """One round of one test between two nodes. `passed` is None where it says nothing."""

    members: Pair
    passed: bool | None
    text: str
    slow: bool = False  # it came to an end, below what it should reach


class TestOutcome(msgspec.Struct, frozen=True):
    """What one test says of each node that was to run it: True good, False bad, None neither."""

    test: Test
    nodes: dict[str, bool | None]
    runs: tuple[PairRun, ...] = ()  # of a test of two

    def part(self, node: str, answers: Answers) -> Part:
        """What is bad of a node that failed."""
        return self.test.part if self.test.group == 1 or answers.heard(node) else Part.NODE


def answers(orders: Orders, results: Iterable[DiagnosticResult], thresholds: Thresholds) -> Answers:
    """Where a node answered twice, its last word counts."""
    by_round = {(result.node, result.test, result.round): result for result in results}
    return Answers(orders, by_round, thresholds)


def passes(result: DiagnosticResult, least: float) -> bool | None:
    """Whether it came to a good end and reached `least`; None where it could not be run."""
    if not result.ok:
        return result.ok
    return result.value is None or result.value >= least

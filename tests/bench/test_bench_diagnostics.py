"""The benchmark of the tests of nodes: every planted fault is tried, and no process is left."""

from collections import defaultdict

import psutil
import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

from holdfast.bench.diagnostics.benchmark import HEALTHY, Case, Found, measure, told  # noqa: E402
from holdfast.bench.diagnostics.faults import FAULTS  # noqa: E402
from holdfast.diagnostics.registry import TESTS  # noqa: E402
from holdfast.protocol.messages import DiagnosticResult  # noqa: E402


def test_one_turn_tries_every_case_and_finds_what_does_not_hang_on_speed() -> None:
    before = set(psutil.Process().children())
    found: Found = defaultdict(list)
    measure(0, lambda what: None, found)
    rows = {(row.case.test, row.case.node, row.case.beside): row for row in told(found)}
    nodes = {test: {HEALTHY, *FAULTS.get(test, {})} for test in TESTS}
    assert set(rows) == {
        (test, node, beside) for test in TESTS for node in nodes[test] for beside in LOADS
    }
    for beside in LOADS:
        assert rows["compute", "a wrong bit", beside].wrong == 0
        assert rows["allreduce", "stopped", beside].wrong == 0
    assert set(psutil.Process().children()) <= before


LOADS = ("alone", "busy")


def exam(*values: float) -> list[DiagnosticResult]:
    return [DiagnosticResult(id="b", test="compute", node="n", ok=True, value=v) for v in values]


def test_an_exam_fails_if_each_round_is_below_half_of_the_healthy_median() -> None:
    healthy, slow = Case("compute", HEALTHY, "alone"), Case("compute", "slow", "alone")
    found: Found = defaultdict(list)
    found[healthy] = [exam(10, 10), exam(10, 4), exam(10, 10), exam(4, 4)]
    found[slow] = [exam(4, 4), exam(4, 9)]
    good, bad = told(found)
    assert (good.exams, good.wrong, good.least) == (4, 1, 5)
    assert (bad.exams, bad.wrong, bad.reached) == (2, 1, 4)
    assert good.at_most > 1 / 4

"""`--slowest` lists the tests that took most of the processors, whatever the clock says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from costs import Costs


def told(costs: Costs) -> list[str]:
    lines: list[str] = []
    write: Callable[[str], None] = lines.append
    reporter = SimpleNamespace(write_line=write)
    costs.pytest_terminal_summary(cast(pytest.TerminalReporter, reporter))
    return lines


def test_the_dearest_come_first_and_all_are_counted() -> None:
    costs = Costs(listed=2)
    costs.costs = {"waits": (60.0, 0.5), "works": (3.0, 5.0), "forks": (2.0, 7.0)}
    summed, *listed = told(costs)
    assert summed.split() == ["clock", "processors", "3", "tests:", "65", "s,", "12", "s"]
    assert [line.split()[-1] for line in listed] == ["forks", "works"]


def test_where_nothing_ran_nothing_is_listed() -> None:
    assert told(Costs(listed=2)) == []

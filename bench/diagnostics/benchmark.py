"""`holdfast bench diagnostics`: sensitivity and false alarms of each test of nodes, counted.

Called by the command line. Cases take turns until the time is over, so that whatever else this
machine does falls on all of them. An exam fails as in `verdict`: each of its rounds does.
"""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.bench.diagnostics.exams import busy, exam
from holdfast.bench.diagnostics.faults import FAULTS
from holdfast.diagnostics.answers import passes
from holdfast.diagnostics.calibration import upper_bound
from holdfast.diagnostics.registry import TESTS, Test
from holdfast.protocol import exitcodes
from holdfast.protocol.messages import DiagnosticResult

HEALTHY, ALONE, BUSY = "healthy", "alone", "busy"
Exams = list[list[DiagnosticResult]]


class Case(msgspec.Struct, frozen=True):
    """What is examined: a healthy node or one with a fault, alone or beside a loop on each core."""

    test: str
    node: str
    beside: str


Found = defaultdict[Case, Exams]
"""All exams of each case, in the order in which the cases came first."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One case. What is wrong: a healthy node failed, or a faulty one did not."""

    case: Case
    exams: int
    wrong: int
    at_most: float  # the rate of being wrong, at 95 %
    late: int  # rounds, of two an exam, that came to no end in time
    reached: float | None  # median over all rounds, in the unit of the test
    least: float  # that passes: half of what the median healthy node reached alone


def run(*, minutes: float, as_json: bool) -> int:
    """Examine until the time is over, and print the counts; the exit code."""
    progress = Console(stderr=True)
    load = os.getloadavg()[0]
    found: Found = defaultdict(list)
    code = exitcodes.OK
    try:
        measure(60 * minutes, lambda what: progress.print(what, markup=False), found)
    except KeyboardInterrupt:
        progress.print("interrupted; nothing is left running")
        code = exitcodes.INTERRUPTED
    rows = told(found)
    if as_json:
        print(msgspec.json.encode({"load": load, "rows": rows}).decode())
    else:
        _show(Console(), rows, load)
    return code


def measure(limit_s: float, say: Callable[[str], None], found: Found) -> None:
    """Add exams of each case to `found`: as many turns as fit into the time, one at least."""
    begin_s = time.monotonic()
    turns, spent_s = 0, 0.0
    while not turns or spent_s + spent_s / turns < limit_s:
        for beside in (ALONE, BUSY):
            with busy() if beside == BUSY else nullcontext():
                for test in TESTS.values():
                    _turn(test, beside, found)
        turns, spent_s = turns + 1, time.monotonic() - begin_s
        say(f"turn {turns}, {spent_s:.0f} s")


def _turn(test: Test, beside: str, found: Found) -> None:
    found[Case(test.name, HEALTHY, beside)].append(exam(test, None))
    reached = _median(found[Case(test.name, HEALTHY, ALONE)])
    for name, plant in FAULTS.get(test.name, {}).items():
        change = partial(plant, reached or 1.0)
        found[Case(test.name, name, beside)].append(exam(test, change))


def told(found: Found) -> list[Row]:
    """The counts of each case."""
    return [_row(case, exams, _least(case.test, found)) for case, exams in found.items()]


def _row(case: Case, exams: Exams, least: float) -> Row:
    failed = [all(passes(each, least) is False for each in rounds) for rounds in exams]
    wrong = failed.count(case.node == HEALTHY)
    return Row(
        case=case,
        exams=len(exams),
        wrong=wrong,
        at_most=upper_bound(wrong, len(exams)),
        late=sum(each.ok is not True and not each.wrong for rounds in exams for each in rounds),
        reached=_median(exams),
        least=least,
    )


def _least(test: str, found: Found) -> float:
    reached = _median(found[Case(test, HEALTHY, ALONE)])
    return TESTS[test].share_of_median * (reached or 0.0)


def _median(exams: Exams) -> float | None:
    values = [each.value for rounds in exams for each in rounds if each.value is not None]
    return statistics.median(values) if values else None


def _show(console: Console, rows: list[Row], load: float) -> None:
    table = Table("test", "node", "beside it", title=f"load before: {load:.1f}; bounds at 95 %")
    for heading in ("exams", "wrong", "at most", "late", "reached", "least"):
        table.add_column(heading, justify="right")
    for row in rows:
        reached = "-" if row.reached is None else f"{row.reached:.0f}"
        rate, least = f"{row.at_most:.1%}", f"{row.least:.0f}"
        counts = [str(row.exams), str(row.wrong), rate, str(row.late), reached, least]
        table.add_row(row.case.test, row.case.node, row.case.beside, *counts)
    console.print(table)
    for test in TESTS:
        mine = [row for row in rows if row.case.test == test]
        console.print(f"{test}: {_total(mine, healthy=False)}, {_total(mine, healthy=True)}")


def _total(rows: list[Row], *, healthy: bool) -> str:
    mine = [row for row in rows if (row.case.node == HEALTHY) is healthy]
    wrong, exams = sum(row.wrong for row in mine), sum(row.exams for row in mine)
    what = "false alarms" if healthy else "missed"
    return f"{what} {wrong} of {exams} (at most {upper_bound(wrong, exams):.1%})"

"""What was done against what was blamed, over many runs: counts, shares and times. Pure.

Called by `chaos.report`. A share has a lower bound, for thirty runs that were right are no proof of
all: one-sided, 95 %, exact (Clopper and Pearson, Biometrika 26, 1934), so .05^(1/n) where all were.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median

import msgspec

from holdfast.diagnostics.calibration import upper_bound
from holdfast.lab.chaos.campaign import Played
from holdfast.lab.outcome import rounded

CLASSES = ("infrastructure", "unknown", "user", "report", "nothing")
"""Whose fault it was said to be; `report`: told, and nothing done."""


FIRST = ("rank 0", "the store's node")
HEADS = (
    *(
        "#",
        "done",
        "n",
        "to rank 0 or its node",
        "right",
        "at least",
        *CLASSES,
        "another named",
        "innocents",
    ),
    *("named s: median, max", "running s: median, max"),
)


class Times(msgspec.Struct, frozen=True):
    """Seconds, of those runs that have them."""

    median: float
    longest: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `right`: of `n` runs so many blamed the right one, rightly; `passed`: all else was
    as it has to be, too; `at_least`: the share right, as far as `n` runs can say it."""

    number: int
    fault: str
    n: int
    right: int
    at_least: float
    passed: int
    classed: dict[str, int]
    another_named: int
    innocents: int
    roles: dict[str, int]
    named_s: Times | None
    running_s: Times | None
    skipped: int


def rows(lines: Iterable[Played]) -> list[Row]:
    """In the order of their numbers."""
    ordered = sorted(lines, key=lambda line: (line.number, line.fault))
    return [_row(*key, list(own)) for key, own in groupby(ordered, lambda e: (e.number, e.fault))]


def _row(number: int, fault: str, lines: Sequence[Played]) -> Row:
    scores = [line.score for line in lines if line.score]
    wrong = sum(not score.blame_right for score in scores)
    return Row(
        number=number,
        fault=fault,
        n=len(scores),
        right=len(scores) - wrong,
        at_least=round(1 - upper_bound(wrong, len(scores)), 3) if scores else 0.0,
        passed=sum(score.passed for score in scores),
        classed=_counted(score.classed or "nothing" for score in scores),
        another_named=sum(score.named == "another" for score in scores),
        innocents=sum(score.innocent_evicted for score in scores),
        roles=_counted(score.role for score in scores if score.role),
        named_s=_times(score.detected_s for score in scores),
        running_s=_times(score.down_s for score in scores),
        skipped=len(lines) - len(scores),
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    ordered = sorted(words)
    return {word: len(list(same)) for word, same in groupby(ordered)}


def _times(values: Iterable[float | None]) -> Times | None:
    known = [value for value in values if value is not None]
    return Times(rounded(median(known)) or 0.0, max(known)) if known else None


# ---------------------------------------------------------------- for people


def sentence(row: Row) -> str:
    """A line on a terminal."""
    if not row.n:
        return f"{row.number:>2} {row.fault:<26} not possible here, {row.skipped} times"
    blamed = ", ".join(f"{count} {word}" for word, count in row.classed.items())
    share = f"{row.right} of {row.n} right (at least {row.at_least:.0%})"
    times = f"named {_seconds(row.named_s)}, running {_seconds(row.running_s)}"
    return (
        f"{row.number:>2} {row.fault:<26} {share}, {row.passed} passed: {blamed}; "
        f"{row.innocents} innocent evicted; {times}"
    )


def table(rows: Sequence[Row]) -> str:
    """In Markdown, with the sum of all as its last row."""
    lines = [_cells(HEADS), "|---" * len(HEADS) + "|"]
    return "\n".join([*lines, *(_line(row) for row in rows if row.n), _sum(rows)]) + "\n"


def without_row(rows: Iterable[Row], names: Sequence[str]) -> str:
    """A sentence on the scenarios of which nothing was counted; "" where there are none."""
    played = {row.fault for row in rows if row.n}
    left = [name for name in names if name not in played]
    if not left:
        return ""
    many, which = f"{len(left)} of {len(names)}", " ".join(f"`{name}`" for name in left)
    return f"{many} scenarios have no row, for no run of theirs was counted: {which}.\n"


def _line(row: Row) -> str:
    classes = [row.classed.get(each) or "" for each in CLASSES]
    shares = (row.n, _first([row]), row.right, f"{row.at_least:.0%}")
    told = (*classes, row.another_named, row.innocents)
    fault = f"`{row.fault}`"
    return _cells((row.number, fault, *shares, *told, _pair(row.named_s), _pair(row.running_s)))


def _sum(rows: Sequence[Row]) -> str:
    n, right = sum(row.n for row in rows), sum(row.right for row in rows)
    classes = [sum(row.classed.get(each, 0) for row in rows) for each in CLASSES]
    another, innocents = (
        sum(getattr(row, e) for row in rows) for e in ("another_named", "innocents")
    )
    at_least = f"{1 - upper_bound(n - right, n):.1%}" if n else ""
    return _cells(
        ("", "all", n, _first(rows), right, at_least, *classes, another, innocents, "", "")
    )


def _first(rows: Sequence[Row]) -> int:
    return sum(row.roles.get(each, 0) for row in rows for each in FIRST)


def _cells(values: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, values))} |"


def _pair(times: Times | None) -> str:
    return f"{times.median:.1f}, {times.longest:.1f}" if times else ""


def _seconds(times: Times | None) -> str:
    return f"{times.median:.1f} s (longest {times.longest:.1f})" if times else "-"

"""Loss, speed and memory of a job as lines, with what happened marked. Pure.

Of the answer of `GET /jobs/{job}/curves`. Each line has its sentence, and all have one table, so
that nothing is told by a picture alone.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.kit.holes import is_hole
from holdfast.page.words import duration, size

WIDE, HIGH = 600, 100
"""Of a line's picture, whose pixels are as wide as the page has room."""
TABLE_ROWS = 24
MOST_MARKS = 12
"""Told in words below; all are drawn."""

Values = Sequence[float | None]


class Line(NamedTuple):
    """`paths`: of SVG, one for each stretch without a hole. `low`, `high`: ends of its scale."""

    name: str
    says: str
    paths: list[str]
    low: str
    high: str


class Mark(NamedTuple):
    """An incident, where on the lines it is, and when."""

    x: float
    wide: float  # until training was where it had been; 0: not known
    incident: int
    when: str
    says: str


class Curves(NamedTuple):
    """`rows`: the table; `until`: where the lines end."""

    lines: list[Line]
    marks: list[Mark]
    more_marks: int
    heads: list[str]
    rows: list[list[str]]
    until: str
    missing: list[str]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


LINES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("loss", "Loss", _number),
    ("step_s", "Seconds a step", _seconds),
    ("memory_bytes", "Memory of the rank that has most", size),
    ("gpu_memory_bytes", "Memory in use of the GPU of which most is", size),
)


def of(told: Mapping[str, Any]) -> Curves:
    """`told`: an answer. Without moments it has no lines, and says why."""
    at_s: Sequence[float] = told["at_s"]
    until_s = max([*at_s, *(each["at_s"] for each in told["marks"])], default=0.0) or 1.0
    known = [each for each in LINES if any(value is not None for value in told[each[0]])]
    lines = [_line(each, at_s, told[each[0]], until_s, told["every_s"]) for each in known]
    marks = [_mark(each, until_s) for each in told["marks"]]
    return Curves(
        lines=lines,
        marks=marks,
        more_marks=max(0, len(marks) - MOST_MARKS),
        heads=["at", "step", *(name for _, name, _ in known)],
        rows=_rows(told, known),
        until=duration(until_s),
        missing=list(told["missing"]),
    )


def _line(
    what: tuple[str, str, Callable[[float], str]],
    at_s: Sequence[float],
    values: Values,
    until_s: float,
    every_s: float,
) -> Line:
    _, name, words = what
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    says = f"{words(known[-1])} at last; {words(known[0])} at first, {words(low)} to {words(high)}"
    paths = _paths(at_s, values, low, (high - low) or 1.0, until_s, every_s)
    return Line(name, says, paths, words(low), words(high))


def _paths(
    at_s: Sequence[float], values: Values, low: float, span: float, until_s: float, every_s: float
) -> list[str]:
    found: list[list[str]] = []
    before_s: float | None = None
    for moment_s, value in zip(at_s, values, strict=True):
        if value is None:
            before_s = None
            continue
        if before_s is None or is_hole(before_s, moment_s, every_s):
            found.append([])
        before_s = moment_s
        x, y = WIDE * moment_s / until_s, HIGH * (1 - (value - low) / span)
        found[-1].append(f"{x:.1f} {y:.1f}")
    return [f"M{'L'.join(points if len(points) > 1 else points * 2)}" for points in found]


def _mark(told: Mapping[str, Any], until_s: float) -> Mark:
    lasted_s = (told["until_s"] or told["at_s"]) - told["at_s"]
    return Mark(
        x=WIDE * told["at_s"] / until_s,
        wide=WIDE * max(0.0, min(lasted_s, until_s - told["at_s"])) / until_s,
        incident=told["incident"],
        when=duration(told["at_s"]),
        says=told["says"],
    )


def _rows(
    told: Mapping[str, Any], known: Sequence[tuple[str, str, Callable[[float], str]]]
) -> list[list[str]]:
    """Evenly spread moments, the newest among them, and first."""
    count = len(told["at_s"])
    shown = min(count, TABLE_ROWS)
    places = [count - 1 - place * (count - 1) // max(1, shown - 1) for place in range(shown)]
    return [
        [
            duration(told["at_s"][place]),
            _told(told["step"][place], "{:,}".format),
            *(_told(told[field][place], words) for field, _, words in known),
        ]
        for place in places
    ]


def _told(value: float | None, words: Callable[[Any], str]) -> str:
    return "" if value is None else words(value)

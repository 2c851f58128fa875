"""How a burst is laid out: a line of bars a rail, one a column, sent up and received down. Pure.

Used by `burst_svg` and by the terminal. A column is of several milliseconds and as high as the
busiest of them, so that a short peak is seen.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple


class Line(NamedTuple):
    """Of one rail: by column the most that a millisecond moved, in bytes."""

    name: str
    sent: list[float]
    received: list[float]
    gap: tuple[float, float]  # columns of the longest idle time, from and to


class Layout(NamedTuple):
    lines: list[Line]
    most: float  # bytes in a millisecond, of all
    length_s: float


def laid_out(answer: Mapping[str, Any], columns: int) -> Layout:
    """The answer of `GET …/bursts/{burst}`, in so many columns."""
    at_us = answer["at_us"]
    length_us = max(1, at_us[-1] if at_us else 1)
    lines = [_line(rail, at_us, length_us, columns) for rail in answer["rails"]]
    most = max((max(each.sent + each.received, default=0.0) for each in lines), default=0.0)
    return Layout(lines, most, length_us / 1e6)


def _line(rail: Mapping[str, Any], at_us: Sequence[int], length_us: int, columns: int) -> Line:
    sent = _columns(rail["sent_bytes"], at_us, length_us, columns)
    received = _columns(rail["received_bytes"], at_us, length_us, columns)
    began = rail["gap_at_s"] * 1e6 / length_us * columns
    return Line(
        rail["name"], sent, received, (began, began + rail["gap_s"] * 1e6 / length_us * columns)
    )


def _columns(
    grown: Sequence[int], at_us: Sequence[int], length_us: int, columns: int
) -> list[float]:
    most = [0.0] * columns
    for (began, ended), count in zip(pairwise(at_us), grown, strict=True):
        per_ms = count * 1000 / max(1000, ended - began)
        first = min(columns - 1, began * columns // length_us)
        for column in range(first, min(columns - 1, (ended - 1) * columns // length_us) + 1):
            most[column] = max(most[column], per_ms)
    return most

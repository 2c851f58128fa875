"""What a benchmark measures: tries, figures over tries, ratios of figures. Pure.

Called by the benchmarks and by `report`. A try that did not come to its end within the time that
was waited counts as longer than any other, never as a number.
"""

from collections.abc import Sequence
from math import inf, isinf

import msgspec


class Incomplete(Exception):
    """A benchmark cannot go on; the message says why. What it measured before still counts."""


class Try(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement. `value` is None where it did not come; `note` then says what was seen."""

    system: str
    figure: str
    unit: str = "s"
    value: float | None = None
    note: str = ""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """All tries of one figure on one system; None stands for "longer than was waited"."""

    system: str
    figure: str
    unit: str
    median: float | None
    p10: float | None
    p90: float | None
    n: int
    missed: int = 0  # of n
    notes: tuple[str, ...] = ()


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How many times longer `other` takes than `system`, by medians; None where one has none."""

    figure: str
    system: str
    other: str
    ratio: float | None
    note: str = ""


def quantile(values: Sequence[float], share: float) -> float | None:
    """By linear interpolation between order statistics; None where it is not finite."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, weight = int(place), place - int(place)
    high = ordered[low + 1] if weight else ordered[low]
    found = high if isinf(high) else ordered[low] * (1 - weight) + high * weight
    return None if isinf(found) else found


def figures(tries: Sequence[Try]) -> list[Figure]:
    """One figure for each (figure, system), in the order of their first tries."""
    groups: dict[tuple[str, str, str], list[Try]] = {}
    for one in tries:
        groups.setdefault((one.figure, one.system, one.unit), []).append(one)
    return [_figure(key, group) for key, group in groups.items()]


def _figure(key: tuple[str, str, str], group: list[Try]) -> Figure:
    name, system, unit = key
    values = [inf if one.value is None else one.value for one in group]
    return Figure(
        system=system,
        figure=name,
        unit=unit,
        median=quantile(values, 0.5),
        p10=quantile(values, 0.1),
        p90=quantile(values, 0.9),
        n=len(group),
        missed=sum(one.value is None for one in group),
        notes=tuple(dict.fromkeys(one.note for one in group if one.note)),
    )


def ratios(found: Sequence[Figure], *, ours: str) -> list[Ratio]:
    """For each figure that `ours` and another system have, theirs over ours."""
    mine = {one.figure: one for one in found if one.system == ours}
    return [
        _ratio(mine[other.figure], other)
        for other in found
        if other.system != ours and other.figure in mine
    ]


def _ratio(mine: Figure, other: Figure) -> Ratio:
    ratio, note = None, ""
    if mine.median is None or other.median is None:
        missing = [one.system for one in (mine, other) if one.median is None]
        note = f"no median for {' and '.join(missing)}: most tries did not come to their end"
    elif mine.median > 0:
        ratio = other.median / mine.median
    return Ratio(figure=mine.figure, system=mine.system, other=other.system, ratio=ratio, note=note)

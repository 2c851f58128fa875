"""The heat map: each rank's time, compared with the ranks of its role. A layout; pure.

Of the answer of `GET /jobs/{job}/ranks`. There is a field of cells for each thing that takes time
(`Column`), with the ranks in the same place in each: by rack, node and rank, whole nodes in a line.
A cell's share of the scale is how far its rank is from the median of its role, in logarithms; the
scale ends where hardly any healthy rank is (`SPREADS` times the robust spread), so that few that
differ are seen among thousands that do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, log2, sqrt
from statistics import median
from typing import Any, NamedTuple

Row = Mapping[str, Any]

SPREADS = 6.0
"""Robust standard deviations (1.4826 times the median of distances from the median) at which the
scale ends: of 12,288 normal values the furthest is at about 4."""
LEAST = log2(1.1)
"""Where it ends at least: a tenth more is what somebody would look for."""
OF_STEP = 0.25
"""Of what most ranks have none (stopped, held back), so much of a step ends the scale."""
STILL_S = 5.0
"""Of a standstill: the floor of `hangFloorS`."""
MOST_PHASES = 6
"""Those that take longest are drawn."""
NAMED = 8
"""Outliers that are named in words; others are ringed, and counted."""
MOST = 28
"""Pixels of a cell."""
GRAVE = ("stopped", "gone", "unseen", "still")
"""States that are outliers where most ranks have others."""
OWN = ("own", "computes")
"""Columns in which more is the rank's own doing; a wait is somebody else's."""


class Column(NamedTuple):
    """One field of cells. `values` and `shares` in the order of the rows; None: not known. `ends`:
    seconds at which the scale ends where that is an amount, from 0 on; None where it is a distance
    from the median of a role."""

    name: str
    says: str
    values: tuple[float | None, ...]
    shares: tuple[float | None, ...]
    ends: float | None = None

    @property
    def title(self) -> str:
        """What is read above it, with where its scale ends."""
        return self.says if self.ends is None else f"{self.says}, orange: {seconds(self.ends)}"


class Cell(NamedTuple):
    """Of the rank in the `row`-th row of the answer, within a field."""

    row: int
    x: float
    y: float


class Outlier(NamedTuple):
    """A rank that differs, and why that is said."""

    row: int
    rank: int
    node: str
    says: str
    weight: float


class Heat(NamedTuple):
    """The whole map. Cells have `size` pixels with the space between them."""

    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    size: float
    width: float  # of one field
    height: float
    outliers: tuple[Outlier, ...]
    window_s: float | None


def heat(answer: Mapping[str, Any], *, width: float = 420.0) -> Heat:
    """The map of an answer; each field is at most `width` pixels wide, but of a pixel a rank."""
    rows: Sequence[Row] = answer["ranks"]
    columns = columns_of(rows)
    cells, size, field_width, height = placed(rows, answer.get("racks", {}), width)
    windows = [row["spent"]["window_s"] for row in rows if row.get("spent")]
    return Heat(
        columns=columns,
        cells=cells,
        size=size,
        width=field_width,
        height=height,
        outliers=outliers_of(rows, columns),
        window_s=median(windows) if windows else None,
    )


# ---------------------------------------------------------------- what is compared


def columns_of(rows: Sequence[Row]) -> tuple[Column, ...]:
    """What is known, the most telling first."""
    spent = [row.get("spent") or {} for row in rows]
    roles = [row.get("role", "") for row in rows]
    steps = [each["step_s"] for each in spent if each.get("step_s")]
    step_s = median(steps) if steps else None
    found = [
        _relative("own", "own part of a step", [_of(each, "own_s") for each in spent], roles),
        _relative("computes", "CPU time in a step", [_of(each, "cpu_s") for each in spent], roles),
        _relative("waits", "waits for peers", [_of(each, "waits_s") for each in spent], roles),
    ]
    for name, field, says in _RARE:
        values = [_of(each, field) if each else None for each in spent]
        if step_s and any(values):
            found.append(_absolute(name, says, values, OF_STEP * step_s))
    for phase in _phases(spent):
        values = [each.get("wall_s", {}).get(phase) for each in spent]
        found.append(_relative(phase, f"phase {phase}", values, roles))
    stills = [row.get("still_s", 0.0) if row.get("step") else None for row in rows]
    still = _absolute("still", "seconds since it moved", stills, STILL_S)
    known = [each for each in found if any(share is not None for share in each.shares)]
    return (*known, still)


_RARE = (
    ("no processor", "delayed_s", "no processor was free"),
    ("held back", "throttled_s", "held back by its cgroup"),
    ("stopped", "stopped_s", "stopped by a signal"),
    ("pauses", "pauses_s", "pauses: saves, evaluations"),
)


def _of(spent: Mapping[str, Any], field: str) -> float | None:
    """What is not told is nothing, where anything is told."""
    return float(spent.get(field, 0.0)) if spent else None


def _phases(spent: Iterable[Mapping[str, Any]]) -> list[str]:
    """By how long they take a rank at the median; the longest first."""
    times: dict[str, list[float]] = {}
    for each in spent:
        for phase, time_s in each.get("wall_s", {}).items():
            times.setdefault(phase, []).append(time_s)
    by_time = sorted(times, key=lambda phase: (-median(times[phase]), phase))
    return by_time[:MOST_PHASES]


def _relative(name: str, says: str, values: Sequence[float | None], roles: Sequence[str]) -> Column:
    medians = {role: median(own) for role, own in _by_role(values, roles).items()}
    off = [
        log2(value / medians[role]) if value and medians.get(role) else None
        for value, role in zip(values, roles, strict=True)
    ]
    end = max(LEAST, SPREADS * _spread([each for each in off if each is not None]))
    shares = tuple(None if each is None else _clipped(each / end) for each in off)
    return Column(name, says, tuple(values), shares)


def _by_role(values: Sequence[float | None], roles: Sequence[str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for value, role in zip(values, roles, strict=True):
        if value:
            found.setdefault(role, []).append(value)
    return found


def _spread(off: Sequence[float]) -> float:
    return 1.4826 * median(map(abs, off)) if off else 0.0


def _absolute(name: str, says: str, values: Sequence[float | None], end: float) -> Column:
    shares = tuple(None if value is None else _clipped(value / end) for value in values)
    return Column(name, says, tuple(values), shares, end)


def _clipped(share: float) -> float:
    return max(-1.0, min(1.0, share))


# ---------------------------------------------------------------- who differs


def outliers_of(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[Outlier, ...]:
    """Whom a detector names, who does not run, and who takes longer than all of its role; the
    gravest first."""
    states = [row.get("state", "unseen") for row in rows]
    usual = max(set(states), key=states.count) if states else ""
    own = [column for column in columns if column.name in OWN]
    found = []
    for place, row in enumerate(rows):
        said = row.get("verdict", "")
        grave = states[place] in GRAVE and states[place] != usual
        longest = max(own, key=lambda column: column.shares[place] or 0.0, default=None)
        share = (longest.shares[place] or 0.0) if longest else 0.0
        if said or grave or share >= 1.0:
            weight = 4.0 * bool(said) + 2.0 * grave + max(0.0, share)
            words = said or _says(row, longest, place, grave=grave)
            found.append(Outlier(place, row["rank"], row["node"], words, weight))
    return tuple(sorted(found, key=lambda each: (-each.weight, each.rank)))


def _says(row: Row, column: Column | None, place: int, *, grave: bool) -> str:
    if grave or column is None:
        return f"it is {row.get('state', 'unseen')}"
    value = column.values[place] or 0.0
    usual = median(each for each in column.values if each)
    return (
        f"{column.says} takes {seconds(value)}, {value / usual:.2f} times the median; "
        "no detector has said anything of it yet"
    )


def seconds(value: float) -> str:
    """`920 ms`, `1.18 s`: three digits."""
    return f"{1e3 * value:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


# ---------------------------------------------------------------- where each is


def placed(
    rows: Sequence[Row], racks: Mapping[str, str], width: float
) -> tuple[tuple[Cell, ...], float, float, float]:
    """Cells by rack, node and rank; their size; width and height of the field."""
    order = sorted(
        range(len(rows)),
        key=lambda place: (_natural(racks.get(rows[place]["node"], "")), rows[place]["rank"]),
    )
    each = max(_ranks_a_node(rows), 1)
    line = each * max(1, round(sqrt(len(rows) * 4 / 3) / each))
    size = float(min(MOST, max(1, int(width // max(line, 1)))))
    cells = tuple(
        Cell(row, (at % line) * size, (at // line) * size) for at, row in enumerate(order)
    )
    lines = ceil(len(rows) / line) if rows else 1
    return cells, size, min(line, max(len(rows), 1)) * size, lines * size


def _ranks_a_node(rows: Sequence[Row]) -> int:
    return max((row.get("local_rank", 0) for row in rows), default=0) + 1


def _natural(name: str) -> tuple[Any, ...]:
    """`rack-10` after `rack-9`."""
    digits = "".join(each if each.isdigit() else " " for each in name).split()
    return tuple(map(int, digits)), name

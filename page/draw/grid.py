"""The 3D view: ranks in dp x pp x tp, a plane a stage, and who waits for whom. A layout; pure.

Of the answer of `GET /jobs/{job}/view3d`. Planes are drawn aslant, below and beside one another, so
that none hides another: every rank is seen, and can be pointed at.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SLANT = 0.6
"""Pixels to the right for each pixel down: what makes it look like a plane."""
FILLED = 0.86
"""Of a cell's side; the rest is space."""
LONGEST = 256
"""Ranks in a line of a plane; a longer row goes on in the next."""
ARROWS = 12
"""That are drawn: places where most wait first."""
MOST = 40.0
"""Pixels of a cell."""
OF_WIDTH = 0.6
"""Height of the view, where cells can be small enough for that."""
CHAIN = 64
"""Ranks that a chain of waits is followed over."""


class Spot(NamedTuple):
    """A rank in the picture: the corner of its cell that is to the left above."""

    rank: int
    at: tuple[int, int, int]  # dp, pp, tp
    x: float
    y: float
    state: str


class Arrow(NamedTuple):
    """So many ranks (`waiting`) wait for a rank; from the middle of them, or of one, to it."""

    waiting: int
    target: int
    where: str
    x1: float
    y1: float
    x2: float
    y2: float


class Chosen(NamedTuple):
    """A rank, its groups by axis, and the ranks that its waits lead to, one after another."""

    rank: int
    groups: dict[str, tuple[int, ...]]
    chain: tuple[int, ...]


Plane = tuple[int, float, float, float, float]
"""Stage, x, y, width, height."""


class Grid(NamedTuple):
    """The whole view. Cells are `cell` wide and `cell * tall` high, aslant by SLANT."""

    spots: tuple[Spot, ...]
    planes: tuple[Plane, ...]
    arrows: tuple[Arrow, ...]
    ends: tuple[int, ...]
    cell: float
    width: float
    height: float
    chosen: Chosen | None


def grid(answer: Mapping[str, Any], *, width: float = 900.0, rank: int | None = None) -> Grid:
    """`rank`: of which groups and waits are shown."""
    dims = answer["dims"]
    across = min(dims["dp"], LONGEST)
    folds = -(-dims["dp"] // across)
    down = folds * dims["tp"]
    cell, line = _spread(across, down, dims["pp"], width)
    tall = cell * down
    gap = max(10.0, cell)
    wide = cell * across + SLANT * tall
    planes = tuple(
        (stage, (stage % line) * (wide + gap), (stage // line) * (tall + gap), wide, tall)
        for stage in range(dims["pp"])
    )
    spots = tuple(_spot(each, dims, across, cell, planes) for each in answer["ranks"])
    spots_of = {spot.rank: spot for spot in spots}
    return Grid(
        spots=spots,
        planes=planes,
        arrows=tuple(_arrows(answer.get("waits", ()), spots_of, cell)),
        ends=tuple(answer.get("ends", ())),
        cell=cell,
        width=min(line, dims["pp"]) * (wide + gap) - gap,
        height=-(-dims["pp"] // line) * (tall + gap) - gap,
        chosen=None if rank is None else chosen(answer, rank),
    )


def _spread(across: int, down: int, planes: int, width: float) -> tuple[float, int]:
    """The largest cells: their size, and how many planes lie side by side."""
    best, best_line = 0.0, 1
    for line in range(1, planes + 1):
        wide = width / (line * (across + SLANT * down) + line)
        high = OF_WIDTH * width / (-(-planes // line) * (down + 1))
        cell = max(2.0, min(MOST, wide, high))
        if cell > best:
            best, best_line = cell, line
    return best, best_line


def _spot(
    placed: Mapping[str, Any],
    dims: Mapping[str, int],
    across: int,
    cell: float,
    planes: Sequence[Plane],
) -> Spot:
    dp, pp, tp = placed["at"]
    below = ((dp // across) * dims["tp"] + tp) * cell
    _, left, top, _, _ = planes[pp]
    x = left + (dp % across) * cell + SLANT * below
    return Spot(placed["rank"], (dp, pp, tp), x, top + below, placed.get("state", "unseen"))


def _arrows(
    waits: Sequence[Mapping[str, Any]], spots: Mapping[int, Spot], cell: float
) -> Iterable[Arrow]:
    half = FILLED * cell / 2
    right = (1 + SLANT) * half
    for wait in sorted(waits, key=lambda each: -len(each["waiting"]))[:ARROWS]:
        waiting = [spots[rank] for rank in wait["waiting"] if rank in spots]
        for target in [rank for rank in wait["lacking"] if rank in spots][:2] if waiting else ():
            x = sum(spot.x for spot in waiting) / len(waiting) + right
            y = sum(spot.y for spot in waiting) / len(waiting) + half
            to = spots[target]
            yield Arrow(len(waiting), target, wait["where"], x, y, to.x + right, to.y + half)


def chosen(answer: Mapping[str, Any], rank: int) -> Chosen:
    """Groups of a rank, and the chain of its waits. Raises `KeyError` where there is none such."""
    places = {each["rank"]: tuple(each["at"]) for each in answer["ranks"]}
    mine = places[rank]
    groups = {}
    for axis, name in enumerate(("dp", "pp", "tp")):
        others = [other for other in range(3) if other != axis]
        groups[name] = tuple(
            each for each, at in places.items() if all(at[other] == mine[other] for other in others)
        )
    return Chosen(rank, groups, chain(answer, rank))


def chain(answer: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    """Whom it waits for, whom that one waits for, and so on to one that waits for nobody, or has
    been met before. Itself is first."""
    awaits = {
        each: wait["lacking"][0]
        for wait in reversed(answer.get("waits", ()))
        if wait["lacking"]
        for each in wait["waiting"]
    }
    found = [rank]
    while found[-1] in awaits and len(found) < CHAIN:
        following = awaits[found[-1]]
        if following in found:
            break
        found.append(following)
    return tuple(found)

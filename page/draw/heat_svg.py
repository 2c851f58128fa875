"""The heat map as SVG: fields of cells, rings round outliers, their names beside. Pure."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from holdfast.page.draw import svg, themes
from holdfast.page.draw.heat import NAMED, Cell, Column, Heat, Outlier, heat, seconds
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme

MARGIN, GAP, HEAD = 16.0, 22.0, 18.0
BESIDE = 340.0
"""Width of the words beside the fields."""
LEAST_WIDTH = 190.0
"""Of a field with its name."""
NUMBERED = 16.0
"""Pixels of a cell from which on its rank is written in it."""
LEVELS = 4
"""Colours to either side of the middle: more are not told apart, and each costs bytes."""
TITLED = 512
"""Cells up to which each says what it is when pointed at."""
RING = 6.0
"""Least radius of a ring, in pixels: a rank may be one."""
SIZE, LINE = 12.0, 16.0
AMOUNT = "where an amount is named: none is pale, so much or more orange"


def drawn(answer: Mapping[str, Any], *, theme: Theme = themes.LIGHT, width: float = 1200.0) -> str:
    """The picture of an answer of `GET /jobs/{job}/ranks`."""
    space = width - BESIDE - 3 * MARGIN
    found = heat(answer, width=(space - GAP) / 2)
    slot = max(found.width, LEAST_WIDTH) + GAP
    across = max(1, int((space + GAP) // slot))
    lines = -(-len(found.columns) // across)
    fields = lines * (found.height + HEAD + GAP)
    words = _words(found, answer)
    height = 2 * MARGIN + 52 + max(fields, len(words) * LINE + 60)
    title = f"heat map of {answer['job']}"
    out = Svg(width, height, theme, title=title, says=" ".join(text for text, _ in words))
    out.text(MARGIN, MARGIN + 14, title, size=16, font_weight="bold")
    out.text(MARGIN, MARGIN + 34, _head(answer, found), fill=theme.quiet)
    for place, column in enumerate(found.columns):
        x = MARGIN + (place % across) * slot
        y = MARGIN + 52 + (place // across) * (found.height + HEAD + GAP)
        _field(out, column, found, answer, x, y, theme)
    _beside(out, words, width - BESIDE - MARGIN, MARGIN + 52, theme)
    return out.done()


def _head(answer: Mapping[str, Any], found: Heat) -> str:
    window = f" over the last {found.window_s:.3g} s" if found.window_s else ""
    count = f"{len(found.cells):,} ranks"
    if not found.cells:
        return str(answer.get("nothing") or "there are no ranks")
    return f"{count} by rack, node and rank; step {answer['step']:,}{window}"


# ---------------------------------------------------------------- a field


def _field(
    out: Svg,
    column: Column,
    found: Heat,
    answer: Mapping[str, Any],
    x: float,
    y: float,
    theme: Theme,
) -> None:
    out.text(x, y + 12, column.title, fill=theme.text)
    top = y + HEAD
    out.rect(x, top, found.width, found.height, theme.even, stroke=theme.line)
    if len(found.cells) <= TITLED:
        _titled(out, column, found, answer, x, top, theme)
    else:
        _merged(out, column, found, x, top, theme)
    radius = found.size * 0.46 if found.size >= NUMBERED else max(RING, found.size * 0.75)
    for outlier in found.outliers:
        cell = next(each for each in found.cells if each.row == outlier.row)
        cx, cy = x + cell.x + found.size / 2, top + cell.y + found.size / 2
        out.circle(cx, cy, radius, fill="none", stroke=theme.mark, stroke_width=2)


def _titled(
    out: Svg,
    column: Column,
    found: Heat,
    answer: Mapping[str, Any],
    x: float,
    top: float,
    theme: Theme,
) -> None:
    inner = max(1.0, found.size - 1)
    for cell in found.cells:
        row = answer["ranks"][cell.row]
        said = f"rank {row['rank']} on {row['node']}: {column.name} {_value(column, cell.row)}"
        colour = _colour(theme, column.shares[cell.row])
        out.raw("<g>").raw(f"<title>{svg.quoted(said)}</title>")
        out.rect(x + cell.x, top + cell.y, inner, inner, colour, class_="cell")
        if found.size >= NUMBERED:
            at, fill = x + cell.x + inner / 2, themes.readable(theme, colour)
            below = top + cell.y + inner / 2 + 3
            out.text(at, below, str(row["rank"]), size=9, fill=fill, text_anchor="middle")
        out.raw("</g>")


def _value(column: Column, row: int) -> str:
    value = column.values[row]
    if value is None:
        return "is not known"
    return f"{value:.3g} s" if column.name == "still" else f"{seconds(value)} a step"


def _merged(out: Svg, column: Column, found: Heat, x: float, top: float, theme: Theme) -> None:
    """A path a colour, of runs of cells: each cell by itself would be megabytes."""
    by_colour: dict[str, list[str]] = {}
    for (level, y), run in groupby(found.cells, key=lambda cell: (_level(column, cell), cell.y)):
        cells = list(run)
        if level == 0:
            continue
        colour = theme.unknown if level is None else _colour(theme, level / LEVELS)
        wide = len(cells) * found.size
        begin = f"M{svg.number(x + cells[0].x)} {svg.number(top + y)}"
        size = svg.number(found.size)
        by_colour.setdefault(colour, []).append(
            f"{begin}h{svg.number(wide)}v{size}h-{svg.number(wide)}z"
        )
    for colour, parts in by_colour.items():
        out.path("".join(parts), fill=colour)


def _level(column: Column, cell: Cell) -> int | None:
    share = column.shares[cell.row]
    return None if share is None else round(share * LEVELS)


def _colour(theme: Theme, share: float | None) -> str:
    return theme.unknown if share is None else themes.mixed(theme, share)


# ---------------------------------------------------------------- the words beside


def _words(found: Heat, answer: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Lines, and whether each begins with a name."""
    if not found.outliers:
        said = "no rank differs from the others of its role" if found.cells else ""
        return [(said, False)]
    lines: list[tuple[str, bool]] = []
    for outlier in found.outliers[:NAMED]:
        lines.append((named(outlier), True))
        lines += [(line, False) for line in svg.wrapped(outlier.says, BESIDE - 20, SIZE)]
    if more := len(found.outliers) - NAMED:
        lines += [(f"and {more:,} more that are ringed", True)] if more > 0 else []
    return lines


def named(outlier: Outlier) -> str:
    return f"rank {outlier.rank} on {outlier.node}"


def _beside(out: Svg, words: list[tuple[str, bool]], x: float, y: float, theme: Theme) -> None:
    _legend(out, x, y, theme)
    for place, (said, name) in enumerate(words):
        at = y + 60 + place * LINE
        more = {"font_weight": "bold", "fill": theme.mark} if name else {}
        out.text(x, at, said, size=SIZE, **more)


def _legend(out: Svg, x: float, y: float, theme: Theme) -> None:
    count, size = 2 * LEVELS + 1, 18.0
    for place in range(count):
        share = (place - LEVELS) / LEVELS
        out.rect(x + place * size, y, size, 10, themes.mixed(theme, share), class_="legend")
    out.text(x, y + 24, "less than its role", size=11, fill=theme.quiet)
    out.text(x, y + 40, AMOUNT, size=11, fill=theme.quiet)
    out.text(x + count * size, y + 24, "more", size=11, fill=theme.quiet, text_anchor="end")
    out.circle(x + count * size + 18, y + 6, RING, fill="none", stroke=theme.mark, stroke_width=2)
    out.text(x + count * size + 30, y + 10, "named below", size=11, fill=theme.quiet)

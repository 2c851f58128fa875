"""The 3D view as SVG. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.page.draw import svg, themes
from holdfast.page.draw.grid import FILLED, SLANT, Arrow, Grid, Spot, grid
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme

MARGIN, HEAD, LABELS = 16.0, 76.0, 56.0
RING = 6.0
TITLED = 1024
LINE = 16.0
NUMBERED = 20.0
"""Pixels of a cell from which on its rank is written in it."""


def drawn(
    answer: Mapping[str, Any],
    *,
    theme: Theme = themes.LIGHT,
    width: float = 1200.0,
    rank: int | None = None,
) -> str:
    """The picture of an answer of `GET /jobs/{job}/view3d`; `rank`: whose groups are shown."""
    found = grid(answer, width=width - 2 * MARGIN - LABELS, rank=rank)
    words = _words(answer, found, width)
    title = f"{answer['job']} in dp x pp x tp"
    height = HEAD + found.height + 40 + (len(words) + 1) * LINE + MARGIN
    out = Svg(width, height, theme, title=title, says=" ".join(words))
    out.arrow("to", theme.mark)
    out.text(MARGIN, MARGIN + 14, title, size=16, font_weight="bold")
    out.text(MARGIN, MARGIN + 34, _head(answer), fill=theme.quiet)
    left = MARGIN + LABELS
    for stage, x, y, _, tall in found.planes:
        at = MARGIN + x if x == 0 else left + x - found.cell / 2
        below = HEAD + y + tall / 2 + 4 if x == 0 else HEAD + y + tall + 10
        out.text(at, below, f"stage {stage}", size=11, fill=theme.quiet)
    _spots(out, answer, found, left, theme)
    for arrow in found.arrows:
        _arrow(out, arrow, found.cell, left, theme)
    _chosen(out, found, left, theme)
    for place, said in enumerate(words):
        out.text(MARGIN, HEAD + found.height + 40 + place * LINE, said)
    _legend(out, MARGIN, height - MARGIN, theme)
    return out.done()


def _head(answer: Mapping[str, Any]) -> str:
    if not answer["ranks"]:
        return str(answer.get("nothing") or "there are no ranks")
    dims = answer["dims"]
    shape = f"dp {dims['dp']} x pp {dims['pp']} x tp {dims['tp']}: to the right dp, down tp"
    return shape if answer["declared"] else f"{shape}; the job does not say how it is parallel"


def _words(answer: Mapping[str, Any], found: Grid, width: float) -> list[str]:
    said = "; ".join(answer["why"]) if answer["ends"] else "nobody waits for longer than a second"
    lines = svg.wrapped(said, width - 2 * MARGIN, 12) if answer["ranks"] else []
    if found.chosen is not None and len(found.chosen.chain) > 1:
        chain = " waits for ".join(f"rank {rank}" for rank in found.chosen.chain)
        lines += svg.wrapped(chain, width - 2 * MARGIN, 12)
    return lines


COLOURS = {"waits": "wait", "runs": "even", "pauses": "less"}
"""Of what a rank does; what else it does is grave."""


def colour_of(state: str, theme: Theme) -> str:
    return str(getattr(theme, COLOURS.get(state, "more")))


def _cell(spot: Spot, cell: float, left: float) -> str:
    """The outline of a rank's cell, aslant."""
    inner = cell * FILLED
    x, y, off = left + spot.x, HEAD + spot.y, SLANT * inner
    n = svg.number
    return f"M{n(x)} {n(y)}h{n(inner)}l{n(off)} {n(inner)}h-{n(inner)}z"


def _spots(out: Svg, answer: Mapping[str, Any], found: Grid, left: float, theme: Theme) -> None:
    if len(found.spots) > TITLED:
        by_state: dict[str, list[str]] = {}
        for spot in found.spots:
            by_state.setdefault(spot.state, []).append(_cell(spot, found.cell, left))
        for state, parts in by_state.items():
            out.path("".join(parts), fill=colour_of(state, theme), class_="spots")
        return
    nodes = {each["rank"]: each["node"] for each in answer["ranks"]}
    for spot in found.spots:
        said = f"rank {spot.rank} on {nodes[spot.rank]} {spot.state}"
        out.raw(f"<g><title>{svg.quoted(said)}</title>")
        fill, line = colour_of(spot.state, theme), theme.line
        out.path(_cell(spot, found.cell, left), fill=fill, stroke=line, class_="spot")
        if found.cell >= NUMBERED:
            inner = found.cell * FILLED
            x, y = left + spot.x + (1 + SLANT) * inner / 2, HEAD + spot.y + inner / 2 + 4
            more = {"fill": themes.readable(theme, fill), "text_anchor": "middle"}
            out.text(x, y, str(spot.rank), size=10, **more)
        out.raw("</g>")


def _arrow(out: Svg, arrow: Arrow, cell: float, left: float, theme: Theme) -> None:
    """From above those that wait to above the one that is ringed, where cells have numbers."""
    radius = max(RING + 3, cell * 0.4)
    up = radius if cell >= NUMBERED else 0.0
    x1, y1, x2, y2 = left + arrow.x1, HEAD + arrow.y1, left + arrow.x2, HEAD + arrow.y2
    bend = f"{svg.number((x1 + x2) / 2)} {svg.number(min(y1, y2) - up - 24)}"
    d = f"M{svg.number(x1)} {svg.number(y1 - up)}Q{bend} {svg.number(x2)} {svg.number(y2 - up)}"
    out.path(
        d,
        fill="none",
        stroke=theme.mark,
        stroke_width=1.5 + min(2.5, arrow.waiting / 8),
        marker_end="url(#to)",
        class_="arrow",
    )
    out.circle(x2, y2, radius, fill="none", stroke=theme.mark, stroke_width=2)
    if cell < NUMBERED:
        said = f"rank {arrow.target}"
        out.text(x2 + 12, y2 - 8, said, size=12, fill=theme.mark, font_weight="bold")


def _chosen(out: Svg, found: Grid, left: float, theme: Theme) -> None:
    if found.chosen is None:
        return
    spots = {spot.rank: spot for spot in found.spots}
    members = {rank for group in found.chosen.groups.values() for rank in group}
    for rank in sorted(members):
        out.path(
            _cell(spots[rank], found.cell, left),
            fill="none",
            stroke=theme.less,
            stroke_width=2,
            class_="group",
        )
    mine = spots[found.chosen.rank]
    out.circle(
        left + mine.x + (1 + SLANT) * FILLED * found.cell / 2,
        HEAD + mine.y + FILLED * found.cell / 2,
        RING,
        fill="none",
        stroke=theme.text,
        stroke_width=2,
    )


def _legend(out: Svg, x: float, y: float, theme: Theme) -> None:
    for name in ("runs", "waits", "pauses", "stopped, still, gone or unseen"):
        out.rect(x, y - 10, 14, 11, colour_of(name, theme), stroke=theme.line, class_="legend")
        out.text(x + 18, y, name, size=11, fill=theme.quiet)
        x += 34 + len(name) * 11 * svg.CHARACTER

"""The timeline as SVG. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.page.draw import svg, themes
from holdfast.page.draw.busy import STOPPED, WAITS
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme
from holdfast.page.draw.timeline import FILLED, Bar, Line, Timeline, timeline
from holdfast.protocol.counts import plural

MARGIN, NAMES, HEAD, FOOT = 16.0, 130.0, 66.0, 64.0
LEGIBLE = 9.0
"""Height of a line from which on its rank is named beside it."""
TICKS = 8


def drawn(
    answer: Mapping[str, Any],
    ranks: Mapping[str, Any] | None = None,
    *,
    theme: Theme = themes.LIGHT,
    width: float = 1200.0,
) -> str:
    """The picture of an answer of `GET /jobs/{job}/spans`; `ranks`: of `…/ranks` beside it."""
    found = timeline(answer, ranks, width=width - 2 * MARGIN - NAMES)
    title = f"timeline of {answer['job']}"
    out = Svg(width, HEAD + found.height + FOOT, theme, title=title, says=_head(answer, found))
    out.hatch("wait", theme.wait)
    out.text(MARGIN, MARGIN + 14, title, size=16, font_weight="bold")
    out.text(MARGIN, MARGIN + 34, _head(answer, found), fill=theme.quiet)
    _names(out, found, theme)
    for bar in found.bars:
        _bar(out, bar, MARGIN + NAMES, HEAD, theme)
    for line in found.lines:
        _steps(out, line, found.line_height * FILLED, MARGIN + NAMES, theme)
    _axis(out, found, width, theme)
    _legend(out, found, MARGIN, HEAD + found.height + 44, theme)
    return out.done()


def _head(answer: Mapping[str, Any], found: Timeline) -> str:
    if not found.lines:
        return "no spans are kept of that time"
    parts = [
        f"{plural(len(found.lines), 'rank')}, {found.from_s:.1f} s to {found.to_s:.1f} s",
        f"{found.left_out:,} ranks are left out" if found.left_out else "",
        f"{answer['dropped']:,} spans were dropped" if answer.get("dropped") else "",
        "later spans are left out: there are too many" if answer.get("more") else "",
        _clocks(answer.get("clock_error_s") or {}),
        found.says,
    ]
    return "; ".join(filter(None, parts))


def _clocks(errors: Mapping[str, float]) -> str:
    worst = max(errors.values(), default=0.0)
    return f"clocks of nodes agree within {1e3 * worst:.2g} ms" if errors else ""


def _names(out: Svg, found: Timeline, theme: Theme) -> None:
    for line in found.lines:
        marked = line.rank in found.awaited
        y = HEAD + line.y
        if marked:
            out.rect(MARGIN, y, out.width - 2 * MARGIN, found.line_height * FILLED, theme.even)
        if found.line_height >= LEGIBLE or marked:
            said = f"rank {line.rank} {line.node}"
            size = min(12.0, max(LEGIBLE, found.line_height - 4))
            more = {"font_weight": "bold", "fill": theme.mark} if marked else {"fill": theme.quiet}
            out.text(MARGIN, y + found.line_height * FILLED / 2 + 4, said, size=size, **more)


def _bar(out: Svg, bar: Bar, x: float, y: float, theme: Theme) -> None:
    if bar.kind == WAITS:
        out.rect(x + bar.x, y + bar.y, bar.width, bar.height, "url(#wait)", class_="wait")
    else:
        colour = colour_of(bar.kind, theme)
        out.rect(x + bar.x, y + bar.y, bar.width, bar.height, colour, class_=f"bar {bar.kind}")


def _steps(out: Svg, line: Line, tall: float, x: float, theme: Theme) -> None:
    """Thin lines where steps begin."""
    if line.steps:
        y = svg.number(HEAD + line.y)
        d = "".join(f"M{svg.number(x + at)} {y}v{svg.number(tall)}" for at in line.steps)
        out.path(d, fill="none", stroke=theme.text, stroke_width=0.6, class_="steps")


def colour_of(kind: str, theme: Theme) -> str:
    return theme.mark if kind == STOPPED else theme.kinds.get(kind, theme.quiet)


def _axis(out: Svg, found: Timeline, width: float, theme: Theme) -> None:
    left, right, y = MARGIN + NAMES, width - MARGIN, HEAD + found.height + 4
    out.line(left, y, right, y, theme.line)
    for tick in range(TICKS + 1):
        share = tick / TICKS
        x = left + share * (right - left)
        at_s = found.from_s + share * (found.to_s - found.from_s)
        anchor = "end" if tick == TICKS else "start" if tick == 0 else "middle"
        out.line(x, y, x, y + 4, theme.line)
        out.text(x, y + 17, f"{at_s:.1f} s", size=11, fill=theme.quiet, text_anchor=anchor)


WORDS = {"step": "its own work"}
"""Kinds that are called otherwise beside the picture."""


def _legend(out: Svg, found: Timeline, x: float, y: float, theme: Theme) -> None:
    there = {bar.kind for bar in found.bars} | {WAITS}
    for kind in (*theme.kinds, STOPPED, WAITS):
        if kind in there:
            fill = "url(#wait)" if kind == WAITS else colour_of(kind, theme)
            name = WORDS.get(kind, kind)
            out.rect(x, y - 10, 14, 11, fill, stroke=theme.line, class_="legend")
            out.text(x + 18, y, name, size=11, fill=theme.quiet)
            x += 34 + len(name) * 11 * svg.CHARACTER

"""The timeline as SVG. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.page.draw import svg, themes
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme
from holdfast.page.draw.timeline import Bar, Timeline, timeline

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
    _axis(out, found, width, theme)
    _legend(out, found, MARGIN, HEAD + found.height + 44, theme)
    return out.done()


def _head(answer: Mapping[str, Any], found: Timeline) -> str:
    if not found.lines:
        return "no spans are kept of that time"
    parts = [
        f"{len(found.lines):,} ranks, {found.from_s:.1f} s to {found.to_s:.1f} s",
        f"{found.left_out:,} ranks are left out" if found.left_out else "",
        f"{answer['dropped']:,} spans were dropped" if answer.get("dropped") else "",
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
            out.rect(MARGIN, y, out.width - 2 * MARGIN, found.line_height * 0.8, theme.even)
        if found.line_height >= LEGIBLE or marked:
            said = f"rank {line.rank} {line.node}"
            size = min(11.0, max(LEGIBLE, found.line_height - 4))
            more = {"font_weight": "bold", "fill": theme.mark} if marked else {"fill": theme.quiet}
            out.text(MARGIN, y + min(12.0, found.line_height * 0.75), said, size=size, **more)


def _bar(out: Svg, bar: Bar, x: float, y: float, theme: Theme) -> None:
    colour = theme.kinds.get(bar.kind, theme.quiet)
    wide = max(bar.width, 0.3)
    out.rect(x + bar.x, y + bar.y, wide, bar.height, colour, class_=f"bar {bar.kind}")
    if bar.wait > 0:
        more = {"stroke": theme.wait, "stroke_width": 0.5, "class_": "wait"}
        out.rect(x + bar.x, y + bar.y, bar.wait, bar.height, theme.ground, **more)
        out.rect(x + bar.x, y + bar.y, bar.wait, bar.height, "url(#wait)")


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


def _legend(out: Svg, found: Timeline, x: float, y: float, theme: Theme) -> None:
    kinds = [kind for kind in theme.kinds if any(bar.kind == kind for bar in found.bars)]
    for name in (*kinds, "waits"):
        fill = theme.kinds.get(name, "url(#wait)")
        out.rect(x, y - 10, 14, 11, fill, stroke=theme.line, class_="legend")
        out.text(x + 18, y, name, size=11, fill=theme.quiet)
        x += 34 + len(name) * 11 * svg.CHARACTER

"""The timeline as SVG. Pure."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any, NamedTuple

from holdfast.page.draw import svg, themes
from holdfast.page.draw.busy import STOPPED, WAITS
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme
from holdfast.page.draw.timeline import FILLED, Bar, Line, Timeline, timeline
from holdfast.protocol.counts import plural

MARGIN, NAMES, HEAD, LINE, FOOT = 16.0, 130.0, 50.0, 16.0, 64.0
NARROW = 360.0
"""Pixels of a phone: drawn for it, words are as large on its screen as they are here."""
LEGIBLE = 9.0
"""Height of a line from which on its rank is named beside it."""


class Room(NamedTuple):
    """How the picture's width is used: `names` beside the lines, `ticks` below, `says` above."""

    width: float
    names: float
    ticks: int
    says: tuple[str, ...]

    @property
    def left(self) -> float:
        return MARGIN + self.names

    @property
    def top(self) -> float:
        return HEAD + LINE * len(self.says)


def drawn(
    answer: Mapping[str, Any],
    ranks: Mapping[str, Any] | None = None,
    *,
    theme: Theme = themes.LIGHT,
    width: float = 1200.0,
) -> str:
    """The picture of an answer of `GET /jobs/{job}/spans`; `ranks`: of `…/ranks` beside it."""
    names, ticks = (40.0, 2) if width < 2 * NARROW else (NAMES, 8)
    found = timeline(answer, ranks, width=width - 2 * MARGIN - names)
    title, head = f"timeline of {answer['job']}", _head(answer, found)
    characters = int((width - 2 * MARGIN) / (12 * svg.CHARACTER))
    room = Room(width, names, ticks, tuple(wrap(head, characters)))
    legend = _legend(found, room)
    height = room.top + found.height + FOOT + LINE * (len(legend) - 1)
    out = Svg(width, height, theme, title=title, says=head)
    out.hatch("wait", theme.wait)
    out.text(MARGIN, MARGIN + 14, title, size=16, font_weight="bold")
    for place, said in enumerate(room.says):
        out.text(MARGIN, MARGIN + 34 + place * LINE, said, fill=theme.quiet)
    _names(out, found, room, theme)
    for bar in found.bars:
        _bar(out, bar, room.left, room.top, theme)
    for line in found.lines:
        _steps(out, line, found.line_height * FILLED, room, theme)
    _axis(out, found, room, theme)
    for place, kinds in enumerate(legend):
        _meanings(out, kinds, room.top + found.height + 44 + place * LINE, theme)
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


def _names(out: Svg, found: Timeline, room: Room, theme: Theme) -> None:
    for line in found.lines:
        marked = line.rank in found.awaited
        y = room.top + line.y
        if marked:
            out.rect(MARGIN, y, out.width - 2 * MARGIN, found.line_height * FILLED, theme.even)
        if found.line_height >= LEGIBLE or marked:
            said = f"rank {line.rank} {line.node}" if room.width >= 2 * NARROW else str(line.rank)
            size = min(12.0, max(LEGIBLE, found.line_height - 4))
            more = {"font_weight": "bold", "fill": theme.mark} if marked else {"fill": theme.quiet}
            out.text(MARGIN, y + found.line_height * FILLED / 2 + 4, said, size=size, **more)


def _bar(out: Svg, bar: Bar, x: float, y: float, theme: Theme) -> None:
    if bar.kind == WAITS:
        out.rect(x + bar.x, y + bar.y, bar.width, bar.height, "url(#wait)", class_="wait")
    else:
        colour = colour_of(bar.kind, theme)
        out.rect(x + bar.x, y + bar.y, bar.width, bar.height, colour, class_=f"bar {bar.kind}")


def _steps(out: Svg, line: Line, tall: float, room: Room, theme: Theme) -> None:
    """Thin lines where steps begin."""
    if line.steps:
        y = svg.number(room.top + line.y)
        d = "".join(f"M{svg.number(room.left + at)} {y}v{svg.number(tall)}" for at in line.steps)
        out.path(d, fill="none", stroke=theme.text, stroke_width=0.6, class_="steps")


def colour_of(kind: str, theme: Theme) -> str:
    return theme.mark if kind == STOPPED else theme.kinds.get(kind, theme.quiet)


def _axis(out: Svg, found: Timeline, room: Room, theme: Theme) -> None:
    left, right, y = room.left, room.width - MARGIN, room.top + found.height + 4
    out.line(left, y, right, y, theme.line)
    for tick in range(room.ticks + 1):
        share = tick / room.ticks
        x = left + share * (right - left)
        at_s = found.from_s + share * (found.to_s - found.from_s)
        anchor = "end" if tick == room.ticks else "start" if tick == 0 else "middle"
        out.line(x, y, x, y + 4, theme.line)
        out.text(x, y + 17, f"{at_s:.1f} s", size=11, fill=theme.quiet, text_anchor=anchor)


WORDS = {"step": "its own work"}
"""Kinds that are called otherwise beside the picture."""


def _legend(found: Timeline, room: Room) -> list[list[str]]:
    """Kinds that are there, in as many lines as they need."""
    there = {bar.kind for bar in found.bars} | {WAITS}
    lines: list[list[str]] = [[]]
    for kind in (each for each in (*themes.LIGHT.kinds, STOPPED, WAITS) if each in there):
        if sum(map(_wide, [*lines[-1], kind])) > room.width - 2 * MARGIN and lines[-1]:
            lines.append([])
        lines[-1].append(kind)
    return lines


def _wide(kind: str) -> float:
    return 34 + len(WORDS.get(kind, kind)) * 11 * svg.CHARACTER


def _meanings(out: Svg, kinds: list[str], y: float, theme: Theme) -> None:
    x = MARGIN
    for kind in kinds:
        fill = "url(#wait)" if kind == WAITS else colour_of(kind, theme)
        out.rect(x, y - 10, 14, 11, fill, stroke=theme.line, class_="legend")
        out.text(x + 18, y, WORDS.get(kind, kind), size=11, fill=theme.quiet)
        x += _wide(kind)

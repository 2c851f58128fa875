"""A burst as SVG: a band a rail, sent above its middle and received below. Pure."""

from collections.abc import Mapping
from typing import Any

from holdfast.page.draw import svg
from holdfast.page.draw.burst import Layout, Line, laid_out
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import LIGHT, Theme
from holdfast.protocol.counts import rate

WIDTH, LEFT, RIGHT = 960.0, 110.0, 14.0
COLUMNS = 836
"""One a pixel."""
BAND, APART = 84.0, 22.0
LINE = 16.0
GAP_S = 0.05
"""An idle time that is shorter is not marked."""


def drawn(answer: Mapping[str, Any], *, theme: Theme = LIGHT) -> str:
    """The answer of `GET …/bursts/{burst}` as a picture."""
    found, note = laid_out(answer, COLUMNS), answer["burst"]
    title = f"Burst {note['id']} of {answer['job']}: {note['node']}, {note['began_at']}"
    words = svg.wrapped(f"{answer['says']} ({note['why']})", WIDTH - 28, 12)
    top = 40.0 + LINE * len(words)
    height = top + len(found.lines) * (BAND + APART) + 40
    out = Svg(WIDTH, height, theme, title=title, says=answer["says"])
    out.text(14, 24, title, size=15, font_weight="bold")
    for at, line in enumerate(words):
        out.text(14, 44 + LINE * at, line, size=12, fill=theme.quiet)
    for at, each in enumerate(found.lines):
        _band(out, each, top + at * (BAND + APART) + BAND / 2 + 8, found, theme)
    _axis(out, height - 34, found.length_s, theme)
    return out.done()


def _band(out: Svg, line: Line, y: float, found: Layout, theme: Theme) -> None:
    out.text(14, y, line.name, size=12, font_weight="bold")
    out.text(14, y + LINE, f"to {rate(found.most * 1e3)}", size=10, fill=theme.quiet)
    began, ended = line.gap
    if (ended - began) / COLUMNS * found.length_s >= GAP_S and any(line.sent + line.received):
        out.rect(LEFT + began, y - BAND / 2, ended - began, BAND, theme.even, class_="gap")
    out.path(_bars(line.sent, y, -1, found.most), fill="none", stroke=theme.less, class_="sent")
    down = _bars(line.received, y, 1, found.most)
    out.path(down, fill="none", stroke=theme.more, class_="received")
    out.line(LEFT, y, WIDTH - RIGHT, y, theme.line)


def _bars(columns: list[float], y: float, way: int, most: float) -> str:
    half = BAND / 2
    return "".join(
        f"M{svg.number(LEFT + at + 0.5)} {svg.number(y)}v{svg.number(way * each / most * half)}"
        for at, each in enumerate(columns)
        if each
    )


def _axis(out: Svg, y: float, length_s: float, theme: Theme) -> None:
    for part in range(6):
        x = LEFT + COLUMNS * part / 5
        said = f"{length_s * part / 5:.3g} s"
        out.text(x, y, said, size=10, fill=theme.quiet, text_anchor="middle")
    said = "sent above the line, received below; a column is as high as its busiest millisecond"
    out.text(LEFT, y + LINE + 4, said, size=11, fill=theme.quiet)

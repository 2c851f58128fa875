"""A small curve of a number over time: loss, speed. Pure."""

from collections.abc import Sequence

from holdfast.page.draw import themes
from holdfast.page.draw.svg import Svg, number
from holdfast.page.draw.themes import Theme

INSET = 3.0


def points(
    values: Sequence[float | None], width: float, height: float
) -> list[list[tuple[float, float]]]:
    """Lines through what is known, broken where it is not; the least value is at the bottom."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    across = (width - 2 * INSET) / max(len(values) - 1, 1)
    up = (height - 2 * INSET) / ((high - low) or 1.0)
    lines: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            lines[-1].append((INSET + place * across, height - INSET - (value - low) * up))
    return [line for line in lines if line]


def drawn(
    values: Sequence[float | None],
    title: str,
    *,
    theme: Theme = themes.LIGHT,
    width: float = 160.0,
    height: float = 36.0,
) -> str:
    """The curve, with its last value in words for who cannot see it."""
    known = [value for value in values if value is not None]
    says = f"from {known[0]:.4g} to {known[-1]:.4g}" if known else "nothing is known yet"
    out = Svg(width, height, theme, title=title, says=says)
    for line in points(values, width, height):
        d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in line)
        out.path(d, fill="none", stroke=theme.less, stroke_width=1.5)
        out.circle(*line[-1], 2, fill=theme.less)
    return out.done()

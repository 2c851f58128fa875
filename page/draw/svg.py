"""SVG as text, piece by piece; whatever is quoted is escaped. Pure."""

from collections.abc import Iterable
from typing import Self
from xml.sax.saxutils import escape, quoteattr

from holdfast.page.draw.themes import Theme

FONT = "system-ui, 'DejaVu Sans', 'Liberation Sans', sans-serif"
CHARACTER = 0.56
"""Width of a usual character, by the size of its type: to leave room, not to measure."""


class Svg:
    """A picture of so many pixels; `title` and `says` are what a screen reader reads."""

    def __init__(self, width: float, height: float, theme: Theme, *, title: str, says: str) -> None:
        self._theme = theme
        self.width, self.height = width, height
        self._about = f"<title>{quoted(title)}</title><desc>{quoted(says)}</desc>"
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, **more: object
    ) -> Self:
        return self._add("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, **more: object) -> Self:
        return self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def path(self, d: str, **more: object) -> Self:
        return self._add("path", d=d, **more)

    def circle(self, cx: float, cy: float, r: float, **more: object) -> Self:
        return self._add("circle", cx=cx, cy=cy, r=r, **more)

    def text(
        self, x: float, y: float, said: str, *, size: float = 12, fill: str = "", **more: object
    ) -> Self:
        more = {"x": x, "y": y, "font_size": size, "fill": fill or self._theme.text, **more}
        self._parts.append(f"<text{_attributes(more)}>{quoted(said)}</text>")
        return self

    def raw(self, part: str) -> Self:
        """A piece that is SVG already, and quotes nothing."""
        self._parts.append(part)
        return self

    def hatch(self, name: str, colour: str) -> Self:
        """A pattern to fill with: `url(#name)`."""
        return self.raw(
            f'<defs><pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" stroke="{colour}" '
            'stroke-width="2"/></pattern></defs>'
        )

    def arrow(self, name: str, colour: str) -> Self:
        """The end of a line: `marker-end="url(#name)"`."""
        return self.raw(
            f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" '
            f'markerHeight="10" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker></defs>'
        )

    def done(self) -> str:
        """The whole picture."""
        width, height = number(self.width), number(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="{FONT}">{self._about}'
            f'<rect width="{width}" height="{height}" fill="{self._theme.ground}"/>'
            f"{''.join(self._parts)}</svg>\n"
        )

    def _add(self, name: str, **attributes: object) -> Self:
        self._parts.append(f"<{name}{_attributes(attributes)}/>")
        return self


def number(value: float) -> str:
    """Short: two digits behind the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def wrapped(said: str, width: float, size: float) -> list[str]:
    """Lines of so many pixels, as far as that can be known without the font."""
    most, lines = max(8, int(width / (size * CHARACTER))), [""]
    for word in said.split():
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) <= most or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def printable(said: str) -> str:
    """Without characters that XML may not have, or that move a terminal's cursor."""
    return "".join(each if each.isprintable() else " " for each in said)


def quoted(said: str) -> str:
    """As text between tags."""
    return escape(printable(said))


def _attributes(attributes: dict[str, object]) -> str:
    return "".join(_pairs(attributes.items()))


def _pairs(items: Iterable[tuple[str, object]]) -> Iterable[str]:
    for name, value in items:
        said = number(value) if isinstance(value, (int, float)) else str(value)
        yield f" {name.rstrip('_').replace('_', '-')}={quoteattr(printable(said))}"

"""The waterfall of a recovery: its stages one after another, as an incident tells them. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.page.draw import themes
from holdfast.page.draw.svg import Svg
from holdfast.page.draw.themes import Theme

MARGIN, NAMES, LINE, HEAD = 16.0, 110.0, 24.0, 62.0
FIGURES = 90.0


class Stage(NamedTuple):
    """From `start_s`, for `took_s`, after the fault was found."""

    name: str
    start_s: float
    took_s: float


def stages(incident: Mapping[str, Any]) -> tuple[Stage, ...]:
    """In order; each begins where the one before ends."""
    found, at_s = [], 0.0
    for name, took_s in incident["stages_s"].items():
        found.append(Stage(name, at_s, took_s))
        at_s += took_s
    return tuple(found)


def drawn(incident: Mapping[str, Any], *, theme: Theme = themes.LIGHT, width: float = 720.0) -> str:
    """The picture of an answer of `GET /incidents/{number}`."""
    found = stages(incident)
    total_s = sum(stage.took_s for stage in found)
    title = f"recovery of incident {incident['number']}"
    says = ", ".join(f"{stage.name} {stage.took_s:.2f} s" for stage in found) or "none was needed"
    out = Svg(width, HEAD + len(found) * LINE + MARGIN, theme, title=title, says=says)
    out.text(MARGIN, MARGIN + 14, title, size=16, font_weight="bold")
    head = f"{total_s:.2f} s: {incident['summary']}" if found else "no recovery was needed"
    out.text(MARGIN, MARGIN + 34, head, fill=theme.quiet)
    scale = (width - 2 * MARGIN - NAMES - FIGURES) / max(total_s, 1e-9)
    for place, stage in enumerate(found):
        y = HEAD + place * LINE
        x, wide = MARGIN + NAMES + stage.start_s * scale, stage.took_s * scale
        out.text(MARGIN, y + 14, stage.name, fill=theme.text)
        out.rect(x, y + 3, max(wide, 1.0), LINE - 9, theme.less, class_="stage")
        out.text(x + max(wide, 1.0) + 6, y + 14, f"{stage.took_s:.2f} s", fill=theme.quiet)
    return out.done()

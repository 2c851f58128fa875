"""Colours of pictures, light and dark. Pure.

From Okabe and Ito's palette ("Color Universal Design", 2008), which people with any of the usual
colour blindnesses tell apart, made darker or lighter where text has to have a contrast of 4.5 : 1
with what is behind it (WCAG 2.2, 1.4.3), and marks one of 3 : 1. tests/page counts both.
"""

from typing import NamedTuple


class Theme(NamedTuple):
    """`more` and `less`: both ends of the scale round `even`."""

    name: str
    ground: str
    text: str
    quiet: str  # text that matters less
    line: str
    more: str
    even: str
    less: str
    mark: str  # rings round outliers, and their names
    wait: str
    unknown: str
    kinds: dict[str, str]


LIGHT = Theme(
    name="light",
    ground="#ffffff",
    text="#1b1f24",
    quiet="#57606a",
    line="#d0d7de",
    more="#c44f00",
    even="#eef0f2",
    less="#0068a8",
    mark="#a0003c",
    wait="#57606a",
    unknown="#ffffff",
    kinds={
        "forward": "#0072b2",
        "backward": "#56b4e9",
        "collective": "#e69f00",
        "p2p": "#cc79a7",
        "optimizer": "#009e73",
        "data": "#b59f00",
        "save": "#d55e00",
        "load": "#8c510a",
        "pause": "#8a8f98",
        "step": "#b3cde0",
    },
)
DARK = Theme(
    name="dark",
    ground="#0d1117",
    text="#e6edf3",
    quiet="#9aa4af",
    line="#30363d",
    more="#ff8a3d",
    even="#22282f",
    less="#4fb3ff",
    mark="#ff7a9c",
    wait="#9aa4af",
    unknown="#0d1117",
    kinds={
        "forward": "#2f8fd0",
        "backward": "#7cc7f2",
        "collective": "#f0b429",
        "p2p": "#e29cc3",
        "optimizer": "#2bbf93",
        "data": "#d9c84a",
        "save": "#ff8a3d",
        "load": "#c08a4a",
        "pause": "#7d8590",
        "step": "#35526b",
    },
)
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def mixed(theme: Theme, share: float) -> str:
    """The colour at `share` of the scale, -1 (less) to 1 (more)."""
    end = theme.more if share > 0 else theme.less
    return blended(theme.even, end, min(1.0, abs(share)))


def readable(theme: Theme, ground: str) -> str:
    """The colour of text on such a ground: that of the two with more contrast."""
    return max((theme.text, theme.ground), key=lambda colour: contrast(colour, ground))


def blended(one: str, other: str, share: float) -> str:
    """Between two colours, `#rrggbb`."""
    pairs = zip(channels(one), channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it: 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(each / 255) for each in channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

"""A time back from now as people write it, `--since 7d`. Used by `goodput` and `digest`."""

import re
from typing import Annotated

import typer

from holdfast.cli.errors import misused

UNITS_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}

Since = Annotated[str, typer.Option(metavar="TIME", help="How far back: 45m, 12h, 7d or 4w.")]


def seconds(written: str, *, most_days: int) -> float:
    """Of `45m`, `12h`, `1.5d`, `4w`. Raises `Stopped` (2)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", written)
    took_s = float(found[1]) * UNITS_S[found[2]] if found else 0.0
    if not 0.0 < took_s <= most_days * UNITS_S["d"]:
        fix = f"Give a number and m, h, d or w, of at most {most_days}d: --since 7d"
        raise misused(f"--since: {written!r} is no such time.", fix)
    return took_s

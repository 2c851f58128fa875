"""Figures as a table for people, or as one line of JSON for machines.

Called by `main`.
"""

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from holdfast.bench.figures import Figure, Ratio


def as_json(found: Sequence[Figure], compared: Sequence[Ratio]) -> str:
    """`figures` and `ratios`, as they are in `bench.figures`."""
    return msgspec.json.encode({"figures": found, "ratios": compared}).decode()


def show(console: Console, found: Sequence[Figure], compared: Sequence[Ratio]) -> None:
    """A table of figures, then the ratios and what was noted."""
    table = Table("figure", "system", "unit", title="medians, 10th and 90th percentile")
    for heading in ("median", "p10", "p90", "n", "missed"):
        table.add_column(heading, justify="right")
    for one in found:
        numbers = [_number(value) for value in (one.median, one.p10, one.p90)]
        table.add_row(one.figure, one.system, one.unit, *numbers, str(one.n), str(one.missed))
    console.print(table)
    for ratio in compared:
        said = f"{ratio.ratio:.1f} times" if ratio.ratio is not None else ratio.note or "no ratio"
        console.print(f"{ratio.figure}: {ratio.other} over {ratio.system}: {said}")
    for one in found:
        for note in one.notes:
            console.print(f"{one.figure}, {one.system}: {note}", style="dim")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

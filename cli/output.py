"""How commands print: JSON for machines, tables for people, colour only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # rich takes a tenth of a second to import: only those who print tables pay
    from rich.console import Console

TONES = {
    "Running": "green",
    "Succeeded": "green",
    "held": "green",
    "Failed": "red",
    "quarantined": "red",
    "gone": "red",
    "lost its driver": "red",
    "maintenance": "yellow",
    "Stopped": "yellow",
    "Suspended": "yellow",
    "Pending": "yellow",
}
"""Colours of states; others that are under way are shown in cyan."""

PIPED_COLUMNS = 10_000
"""Off a terminal a row is a line, for grep, however long it is."""


def console() -> "Console":
    """rich's console on stdout: no colour off a terminal or where NO_COLOR is set."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, soft_wrap=True, width=PIPED_COLUMNS)


def as_json(value: Any) -> None:
    """One line of JSON on stdout."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")
    sys.stdout.flush()


def warn(sentence: str) -> None:
    """On stderr: what people have to know beside what was asked."""
    sys.stderr.write(f"holdfast: {sentence}\n")


def last_word() -> None:
    """On stderr: what was shown is from a journal, for no driver runs."""
    sys.stderr.write("no driver is running here: this is what its journal says\n")


def toned(state: str) -> str:
    """A state with rich's mark-up for its colour."""
    tone = TONES.get(state, "dim" if state in ("free", "unknown") else "cyan")
    return f"[{tone}]{state}[/{tone}]"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table on stdout: no lines to get in the way of grep. The last column gives way; where
    that is not enough, lines are longer than the terminal is wide: names are whole, to be typed.
    """
    from rich.measure import Measurement
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column.upper(), no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        shown.add_row(*("" if cell is None else str(cell) for cell in row))
    out = console()
    anywhere = out.options.update(max_width=PIPED_COLUMNS)
    out.width = max(out.width, Measurement.get(out, anywhere, shown).minimum)
    out.print(shown, crop=False)

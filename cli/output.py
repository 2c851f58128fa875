"""How commands print: JSON for machines, tables for people, colour only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.kit.plain import visible
from holdfast.page.tones import BAD, BUSY, GOOD, PLAIN, WAITS, tone_of

if TYPE_CHECKING:  # rich takes a tenth of a second to import: only those who print tables pay
    from rich.console import Console

COLOURS = {GOOD: "green", BAD: "red", WAITS: "yellow", PLAIN: "dim", BUSY: "cyan"}
"""By how grave a state is."""

NARROW = 60
"""Columns of a terminal below which a table of many columns is hard to read."""
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


def say(text: str) -> None:
    """Lines of ours on stdout, whatever it is that they quote."""
    typer.echo(visible(text))


def complain(line: str) -> None:
    """A line of ours on stderr."""
    sys.stderr.write(f"{visible(line)}\n")


def warn(sentence: str) -> None:
    """On stderr: what people have to know beside what was asked."""
    complain(f"holdfast: {sentence}")


def last_word() -> None:
    """On stderr: what was shown is from a journal, for no driver runs."""
    complain("nothing runs here now: this is read from what the driver wrote down")


class Toned(str):
    """Text with rich's mark-up, all of it ours."""

    __slots__ = ()


def toned(state: str) -> Toned:
    """A state with rich's mark-up for its colour."""
    colour = COLOURS[tone_of(state)]
    return Toned(f"[{colour}]{state}[/{colour}]")


NAMES = frozenset({"name", "run", "node", "job"})
"""Columns of what people type."""


WORD_CHARACTERS = 12
"""Of the last column, in a terminal that is too narrow: a usual word, or `16 MiB`, is whole."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table on stdout: no lines to get in the way of grep. The last column gives way, then
    others, which end in … then, and the space between; where that is not enough, lines are longer
    than the terminal is wide: names are whole, to be typed.
    """
    from rich.measure import Measurement
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[_cell(value) for value in row] for row in rows]
    for place, column in enumerate(columns):
        last = place == len(columns) - 1
        shown.add_column(
            column.upper(),
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
            min_width=_least(column, [row[place] for row in cells], last=last),
        )
    for row in cells:
        shown.add_row(*row)
    out = console()
    anywhere = out.options.update(max_width=PIPED_COLUMNS)
    for near in (False, True, False):
        shown.collapse_padding = near
        least = Measurement.get(out, anywhere, shown).minimum
        if least <= out.width:
            break
    out.width = max(out.width, least)
    out.print(shown, crop=False)


def _least(column: str, cells: Sequence[str], *, last: bool) -> int:
    """Characters that a column has in any terminal: a name is whole, and so are the words of what
    gives way first, but for very long ones.
    """
    if column in NAMES:
        return max(map(len, cells), default=0)
    words = [cell for cell in cells if len(cell) <= WORD_CHARACTERS] or " ".join(cells).split()
    longest = max(map(len, [column, *words]))
    return min(longest, WORD_CHARACTERS) if last else 0


def _cell(value: object) -> str:
    """In rich's mark-up: a name or a reason may have signs of it, which mean nothing there."""
    from rich.markup import escape

    if isinstance(value, Toned):
        return value
    return "" if value is None else escape(visible(str(value)))

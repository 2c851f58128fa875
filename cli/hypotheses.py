"""What may have been behind a fault, as a small table. Called by `why`."""

from collections.abc import Sequence
from typing import Any

from holdfast.cli.output import NARROW, console, say, table
from holdfast.page.hypotheses import choice, told

CHOSEN = "> "


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Nothing where no fault was judged. The reason comes last, for it gives way."""
    if not rows:
        return
    say("What the last fault may have been:")
    if console().width < NARROW:
        table(("may be", "why"), [_two_cells(row) for row in rows])
    else:
        table(("may be", "next step", "cost", "why"), [_cells(row) for row in rows])
    say(_legend(rows))
    if said := choice(rows):
        say(said)


def _legend(rows: Sequence[dict[str, Any]]) -> str:
    """What the marks say, in no more than a narrow terminal has room for."""
    acted = f"{CHOSEN}was acted on, " if any(row["chosen"] for row in rows) else ""
    return f"({acted}closed is not tried)\n(cost: how long it was expected to take)"


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    may_be, step, cost, why, chosen = told(row)
    return (CHOSEN if chosen else " " * len(CHOSEN)) + may_be, step, cost, why


def _two_cells(row: dict[str, Any]) -> tuple[str, str]:
    """The same, the next step before its reason."""
    may_be, step, cost, why = _cells(row)
    return may_be, f"{', '.join(filter(None, (step, cost)))}: {why}"

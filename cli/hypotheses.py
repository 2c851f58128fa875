"""What may have been behind a fault, as a small table. Called by `why`."""

from collections.abc import Sequence
from typing import Any

from holdfast.cli.output import NARROW, console, say, table
from holdfast.cli.words import duration

MAY_BE = {
    "blind": "the driver",
    "pause": "a long pause",
    "passing": "passing fault",
    "restore-point": "restore point",
    "link": "a link",
    "node": "the node",
    "version": "the version",
    "group": "unknown node",
    "user": "the script",
}
"""What may be it, in a few letters."""
NEXT_STEP = {
    "wait": "wait",
    "restart": "restart",
    "move-warm": "use standby",
    "exam": "test it",
    "move-cold": "move",
    "replace": "replace it",
    "step-back": "older point",
    "version-before": "go back",
    "exam-all": "test all",
    "give-up": "give up",
}
CHOSEN = "> "


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Nothing where no fault was judged. The reason comes last, for it gives way."""
    if not rows:
        return
    say("What it may have been:")
    if console().width < NARROW:
        table(("may be", "why"), [_two_cells(row) for row in rows])
    else:
        table(("may be", "next step", "cost", "why"), [_cells(row) for row in rows])
    say(_legend(rows))
    if said := _choice(rows):
        say(said)


def _legend(rows: Sequence[dict[str, Any]]) -> str:
    """What the marks say, in no more than a narrow terminal has room for."""
    acted = f"{CHOSEN}was acted on, " if any(row["chosen"] for row in rows) else ""
    return f"({acted}closed is not tried)"


def _choice(rows: Sequence[dict[str, Any]]) -> str:
    """What the marks do not tell of what was chosen."""
    chosen = next((place for place, row in enumerate(rows) if row["chosen"]), None)
    earlier = any(row["open"] for row in rows[:chosen])
    if chosen is None and earlier:
        return "Its restarts were used up: what is open was not tried any more."
    if chosen is None:
        return "Nothing is left open: its ranks are started again as often as the budget allows."
    return "The evidence was plain: what else is open was not tried first." if earlier else ""


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    mark = CHOSEN if row["chosen"] else " " * len(CHOSEN)
    may_be = MAY_BE.get(row["hypothesis"], row["hypothesis"])  # of a newer driver
    step = NEXT_STEP.get(row["act"], row["act"]) if row["open"] else "closed"
    return mark + may_be, step, _cost(row), row["why"]


def _two_cells(row: dict[str, Any]) -> tuple[str, str]:
    """The same, the next step before its reason."""
    may_be, step, cost, why = _cells(row)
    return may_be, f"{', '.join(filter(None, (step, cost)))}: {why}"


def _cost(row: dict[str, Any]) -> str:
    """`15 s`; "" where it takes no time, or is not done."""
    seconds = row["cost_s"] or 0.0
    return "" if not seconds else f"{seconds:.0f} s" if seconds < 120 else duration(seconds)

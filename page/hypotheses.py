"""What may have been behind a fault, in words. Pure. Used by `cli.hypotheses` and by the page."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.page.words import duration

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
    "swap": "swap places",
    "move-warm": "use standby",
    "exam": "test it",
    "move-cold": "move",
    "replace": "replace it",
    "step-back": "other point",
    "version-before": "go back",
    "exam-all": "test all",
    "give-up": "give up",
}
CLOSED = "closed"


class Told(NamedTuple):
    """One of them. `cost`: "" where it takes no time, or is not done."""

    may_be: str
    step: str
    cost: str
    why: str
    chosen: bool


def told(row: Mapping[str, Any]) -> Told:
    """A row of the table; what is not known here, as of a newer driver, goes by its own name."""
    step = NEXT_STEP.get(row["act"], row["act"]) if row["open"] else CLOSED
    may_be = MAY_BE.get(row["hypothesis"], row["hypothesis"])
    return Told(may_be, step, _cost(row), row["why"], row["chosen"])


def choice(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the marks do not tell of what was chosen; "" where they tell all."""
    chosen = next((place for place, row in enumerate(rows) if row["chosen"]), None)
    before = [row for row in rows[:chosen] if row["open"]]
    if chosen is not None and before and all(row["act"] == "restart" for row in before):
        return "What is open before it no other node may cure, so that it is left for the last."
    earlier = bool(before)
    if chosen is None and earlier:
        return "Its restarts were used up: what is open was not tried any more."
    if chosen is None:
        return "Nothing is left open: its ranks are started again as often as the budget allows."
    return "Its restarts were used up: what is open before it was not tried." if earlier else ""


def _cost(row: Mapping[str, Any]) -> str:
    seconds = row["cost_s"] or 0.0
    return "" if not seconds else f"{seconds:.0f} s" if seconds < 120 else duration(seconds)

"""What may have been behind a fault, as people are shown it. Pure.

Used by `views` of incidents and by `telling`.
"""

from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.fact import Row, Table


class HypothesisView(View):
    """One thing that may be behind a fault."""

    hypothesis: str
    """blind (the driver does not see), pause, passing, restore-point, link, node, version, group
    (one of the job's nodes, nobody knows which), or user."""
    open: bool
    """It may be that; else it is closed."""
    why: str
    """It is open, or closed, in a clause."""
    act: str | None
    """What would be done about it: wait, restart, swap, move-warm, exam, move-cold, replace,
    step-back, version-before, exam-all or give-up; null where it is closed."""
    cost_s: float | None
    """Seconds that this costs, about; null where it is closed."""
    chosen: bool
    """It is what was acted on."""


def hypotheses_of(table: Table | None) -> list[HypothesisView]:
    """In the order in which they are tried; none where nothing was judged."""
    return [] if table is None else [_view(row, table) for row in table.rows]


def _view(row: Row, table: Table) -> HypothesisView:
    return HypothesisView(
        hypothesis=row.hypothesis.value,
        open=row.open,
        why=row.why,
        act=row.act.value if row.act else None,
        cost_s=row.cost_s if row.open else None,
        chosen=row.hypothesis is table.chosen,
    )

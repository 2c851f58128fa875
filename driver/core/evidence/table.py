"""The next step after a fault: the first hypothesis that is still open, in the order of its class.

Called by the recovery and by `why`. Pure. Cost chooses how to act on one hypothesis, never between
two: the cheapest first, or by odds, ended healthy jobs (second-pass.md, "Evidence").
"""

from holdfast.driver.core.evidence import rules
from holdfast.driver.core.evidence.act import Act
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import FaultClass, Hypothesis
from holdfast.driver.core.state.value import Value

_H = Hypothesis

ORDER: dict[FaultClass, tuple[Hypothesis, ...]] = {
    FaultClass.SAID: (_H.BLIND, _H.PASSING, _H.POINT, _H.NODE, _H.VERSION, _H.USER),
    FaultClass.DIED: (
        *(_H.BLIND, _H.PASSING, _H.POINT, _H.LINK, _H.NODE, _H.VERSION, _H.GROUP, _H.USER),
    ),
    FaultClass.STOOD: (_H.BLIND, _H.PAUSE, _H.NODE, _H.VERSION, _H.USER),
}
"""What is tried after what. What is plain (a node that is convicted, a script that cannot be read)
comes before all."""


class Row(Value, frozen=True):
    """One hypothesis, for people too: open or closed, by what, and what it would take to act."""

    hypothesis: Hypothesis
    open: bool
    why: str
    act: Act | None = None  # None where it is closed
    cost_s: float = 0.0


class Table(Value, frozen=True):
    """All of them, in order, and which one is acted on: None where nothing is left open, and the
    job is restarted as long as its budget allows."""

    rows: tuple[Row, ...]
    chosen: Hypothesis | None = None
    act: Act = Act.RESTART


def judge(case: Case) -> Table:
    """The table of a case."""
    rows = tuple(_row(case, each) for each in ORDER[case.fault])
    first = _plain(case, rows) or next((row for row in rows if row.open), None)
    if first is None or first.act is None:
        return Table(rows=rows)
    return Table(rows=rows, chosen=first.hypothesis, act=first.act)


def _plain(case: Case, rows: tuple[Row, ...]) -> Row | None:
    """The row that explicit evidence opens, whatever came before."""
    plain = Hypothesis.NODE if case.convicted else Hypothesis.USER if case.hopeless else None
    return next((row for row in rows if row.hypothesis is plain), None)


def _row(case: Case, hypothesis: Hypothesis) -> Row:
    answer = rules.RULES[hypothesis](case)
    if not answer.open:
        return Row(hypothesis=hypothesis, open=False, why=answer.why)
    act = _ACTS.get(hypothesis) or _for_node(case)
    cost_s = case.ways.cost_of(act)
    return Row(hypothesis=hypothesis, open=True, why=answer.why, act=act, cost_s=cost_s)


_ACTS = {
    Hypothesis.BLIND: Act.WAIT,
    Hypothesis.PAUSE: Act.RESTART,
    Hypothesis.PASSING: Act.RESTART,
    Hypothesis.POINT: Act.STEP_BACK,
    Hypothesis.VERSION: Act.VERSION_BEFORE,
    Hypothesis.GROUP: Act.EXAM_ALL,
    Hypothesis.USER: Act.GIVE_UP,
}


def _for_node(case: Case) -> Act:
    """Of a node, or of one end of a link."""
    return Act.REPLACE if case.convicted else rules.how_to_leave(case) or Act.RESTART

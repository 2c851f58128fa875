"""The next step after a fault: the first hypothesis that is still open, in the order of its class.

Called by the recovery. Pure. Cost chooses how to act on one hypothesis, never between two: the
cheapest first, or by odds, ended healthy jobs (second-pass.md, "Evidence").
"""

from collections.abc import Collection

from msgspec.structs import replace

from holdfast.driver.core.evidence import rules
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.state.fact import Act, FaultClass, Hypothesis, Row, Table

_H = Hypothesis

ORDER: dict[FaultClass, tuple[Hypothesis, ...]] = {
    FaultClass.SAID: (_H.BLIND, _H.PASSING, _H.POINT, _H.NODE, _H.VERSION, _H.USER),
    FaultClass.DIED: (
        *(_H.BLIND, _H.PASSING, _H.POINT, _H.LINK, _H.NODE, _H.VERSION, _H.GROUP, _H.USER),
    ),
    FaultClass.FIGURES: (_H.PASSING, _H.NODE, _H.VERSION, _H.USER),
    FaultClass.STOOD: (_H.BLIND, _H.PAUSE, _H.LINK, _H.NODE, _H.VERSION, _H.GROUP, _H.USER),
}
"""What is tried after what."""


def judge(case: Case) -> Table:
    """The table of a case. What is plain is all that is looked at."""
    plain = _plain(case)
    rows = (plain,) if plain else tuple(_row(case, each) for each in ORDER[case.fault])
    first = min((row for row in rows if row.open), key=_is_in_vain, default=None)
    if first is None or first.act is None:
        return Table(rows=rows)
    return Table(rows=rows, chosen=first.hypothesis, act=first.act)


IN_VAIN = frozenset({Act.RESTART, Act.GIVE_UP})
"""What leaves a node where it is."""


def _is_in_vain(row: Row) -> bool:
    """A node, or one of two, that the job cannot leave: believed where nothing else is open."""
    return row.hypothesis in (Hypothesis.NODE, Hypothesis.LINK) and row.act in IN_VAIN


LAST = frozenset({Hypothesis.NODE, Hypothesis.VERSION})
"""What is tried before a job ends for its budget: it costs no more than one start."""


def at_last(case: Case, tried: Collection[Hypothesis | None] = ()) -> tuple[Case, Table] | None:
    """What there is to try where the budget for restarts is used up, but for what was `tried` so
    before; None: nothing. Tests are no start: what comes after them is."""
    final = replace(case, last=True)
    table = judge(final)
    still = (row for row in table.rows if row.open and row.hypothesis not in tried)
    row = next((row for row in still if row.act not in {Act.EXAM, *IN_VAIN}), None)
    if row is None or row.act is None or row.hypothesis not in LAST:
        return None
    return final, replace(table, chosen=row.hypothesis, act=row.act)


def spent(case: Case) -> Table:
    """Where the budget is used up and nothing is tried any more: what is left."""
    table = judge(replace(case, last=True))
    left = any(row.open and row.hypothesis is Hypothesis.USER for row in table.rows)
    return replace(table, chosen=Hypothesis.USER if left else None, act=Act.GIVE_UP)


def _plain(case: Case) -> Row | None:
    """What explicit evidence says, whatever came before: no rule is asked then; None where there is
    none."""
    if case.hopeless:
        return _open(case, Hypothesis.USER, case.hopeless, Act.GIVE_UP)
    if case.convicted:
        why = rules.NO_OTHER if case.fallback else case.convicted
        return _open(case, Hypothesis.NODE, why, case.fallback or Act.REPLACE)
    return _open(case, Hypothesis.POINT, case.refused, Act.STEP_BACK) if case.refused else None


def _row(case: Case, hypothesis: Hypothesis) -> Row:
    answer = rules.RULES[hypothesis](case)
    if not answer.open:
        return Row(hypothesis=hypothesis, open=False, why=answer.why)
    return _open(case, hypothesis, answer.why, _act(case, hypothesis))


def _open(case: Case, hypothesis: Hypothesis, why: str, act: Act) -> Row:
    return Row(hypothesis=hypothesis, open=True, why=why, act=act, cost_s=case.ways.cost_of(act))


def _act(case: Case, hypothesis: Hypothesis) -> Act:
    """How an open hypothesis is acted on."""
    if hypothesis is Hypothesis.NODE:
        stay = Act.GIVE_UP if rules.cornered(case) else Act.RESTART
        return rules.how_to_leave(case) or stay
    if hypothesis is Hypothesis.LINK:
        return case.leave or Act.RESTART
    return _ACTS[hypothesis]


_ACTS = {
    Hypothesis.BLIND: Act.WAIT,
    Hypothesis.PAUSE: Act.RESTART,
    Hypothesis.PASSING: Act.RESTART,
    Hypothesis.POINT: Act.STEP_BACK,
    Hypothesis.VERSION: Act.VERSION_BEFORE,
    Hypothesis.GROUP: Act.EXAM_ALL,
    Hypothesis.USER: Act.GIVE_UP,
}

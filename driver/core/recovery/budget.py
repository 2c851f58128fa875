"""Whose budget a restart is paid from, and whether it is used up. Pure.

A budget counts what was paid within its own window, but for what the job had earned: it had got on
for so long that the restart is little beside it. The user's pays for what the script says of
itself, for what came again at one site with nothing else left open, and for deaths that ranks bring
upon themselves (SIGSEGV, say) where the job does not get on and nothing but a restart is left, or
it has one node and may have no other; the infrastructure's pays for all else.
"""

from holdfast.driver.core.events import Budget
from holdfast.driver.core.evidence import book
from holdfast.driver.core.evidence import table as hypotheses
from holdfast.driver.core.evidence.case import DEFAULT_S, Case
from holdfast.driver.core.faults import crash_signature
from holdfast.driver.core.state.fact import Act, FaultClass, Hypothesis, Table
from holdfast.driver.core.state.model import Fault, Incident, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame

EARNS = 10
"""So many times what a restart costs a job has to get on to earn one: then it loses no more than a
tenth by them, and to end it would lose all."""

NOT_USERS = frozenset(
    {
        *(Hypothesis.BLIND, Hypothesis.PAUSE, Hypothesis.POINT),
        *(Hypothesis.LINK, Hypothesis.NODE, Hypothesis.GROUP),
    }
)
"""What the script is not blamed for while it is acted on; what it says itself it is blamed for as
long as nothing but a restart is left."""


def payer(job: Job, fault: Fault, case: Case, table: Table, incident: Incident) -> Blame | None:
    """Who pays for the restart that follows; None where none does, or a person asked for it."""
    if not job.goes_on or fault.asked or table.act in (Act.GIVE_UP, Act.WAIT):
        return None
    idle = table.act is Act.RESTART and table.chosen is not Hypothesis.PASSING
    idle = idle and incident.faults > 1  # it has not got on since
    own = fault.own and not case.went_along and (case.alone or idle)
    script = own or case.fault is FaultClass.SAID
    ours = table.chosen in NOT_USERS and not (script and table.act is Act.RESTART)
    if ours or fault.blame is Blame.INFRASTRUCTURE:
        return Blame.INFRASTRUCTURE
    again = table.chosen is None and bool(case.recurred) and not case.hang
    users = script or again or fault.blame is Blame.USER
    return Blame.USER if users else Blame.INFRASTRUCTURE


def used_up(turn: Turn, job: Job, fault: Fault, case: Case, by: Blame | None) -> str:
    """Why the job may not try again; "" where it may."""
    if by is None:
        return ""
    budget = _budget(job, by)
    if book.paid(job.facts, by, turn.now - budget.window_s) < budget.restarts:
        return ""
    killed = crash_signature.killed(fault.signature, len(case.recurred) + 1)
    return f"{fault.summary}. {killed}{_told(budget, by)}"


def none_left(turn: Turn, job: Job) -> str:
    """Why the infrastructure's budget pays no more restart; "" where it does."""
    by = Blame.INFRASTRUCTURE
    own = _budget(job, by)
    paid = book.paid(job.facts, by, turn.now - own.window_s)
    return _told(own, by) if paid >= own.restarts else ""


def goes_on(turn: Turn, job: Job, case: Case, by: Blame) -> bool:
    """Whether it may try again though nothing is left to try: what it has earned is its own."""
    budget = _budget(job, by)
    unearned = book.paid(job.facts, by, turn.now - budget.window_s, earned=False)
    return budget.restarts > 0 and (case.earned or unearned < budget.restarts)


def earned(turn: Turn, job: Job, fault: Fault, restart_s: float) -> bool:
    """Whether the job got on well since its fault before, further than ever."""
    now = turn.incidents.get(job.incident or 0)
    if now is not None and now.faults > 1:
        return False  # it has not got on since the fault before, which is of the same incident
    known = (each for each in turn.incidents.values() if each.table and job.name in each.jobs)
    others = (each for each in known if each.id != job.incident)
    before = max(others, key=lambda each: each.id, default=None)
    if before is None or before.overtaken or before.resumed_s is None:
        return False
    least_s = EARNS * max(restart_s, DEFAULT_S[Act.RESTART])
    return turn.now - fault.stalled_s - before.resumed_s >= least_s


def _budget(job: Job, by: Blame | None) -> Budget:
    return job.plan.user if by is Blame.USER else job.plan.infrastructure


def at_last(turn: Turn, job: Job, case: Case, by: Blame | None) -> tuple[Case, Table] | None:
    """What there is to try where a budget is used up: each hypothesis once within its window, and
    nothing where no restart was allowed at all. What convicts a node is no guess to be tried: it
    is what the budget counts."""
    budget = _budget(job, by)
    if case.convicted or not budget.restarts:
        return None
    lately = (fact for fact in job.facts if fact.at_s > turn.now - budget.window_s)
    free = (fact for fact in lately if fact.fault is not None and fact.payer is None)
    return hypotheses.at_last(case, {fact.held_for for fact in free})  # they were tried last


def _told(budget: Budget, by: Blame) -> str:
    """`All 3 restarts for user faults within 1 h are used`, in the right number."""
    if budget.restarts == 0:
        return f"No restart is allowed for {by} faults"
    hours = budget.window_s / 3600
    window = f"{hours:g} h" if hours >= 1 else f"{budget.window_s:g} s"
    if budget.restarts == 1:
        return f"The one restart for {by} faults within {window} is used"
    return f"All {budget.restarts} restarts for {by} faults within {window} are used"

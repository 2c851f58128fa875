"""What is done about a fault: the next step by what is still open, within the budget.

Called by the machines with a `Fault`. Pure. What may be behind it is judged in `evidence`; the
rungs, by which people know how much a recovery cost, are `protocol.faults.Rung`.
"""

from msgspec.structs import replace

from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.evidence import signs
from holdfast.driver.core.evidence import table as hypotheses
from holdfast.driver.core.evidence.case import Case
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import seen_before, shows
from holdfast.driver.core.job import candidates
from holdfast.driver.core.recovery import acts, budget, facts
from holdfast.driver.core.recovery.case_of import case_of, placed
from holdfast.driver.core.state.fact import About, Act, Bearing, FaultClass, Hypothesis, Table
from holdfast.driver.core.state.model import Fault, Incident, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Rung, Weight

UNSAID = frozenset({FaultClass.STOOD, FaultClass.FIGURES})
"""What the script does, and says nothing of."""


def recover(
    turn: Turn, name: str, fault: Fault, *, attempt: bool = False, noted: int | None = None
) -> None:
    """Act on a fault of a job.

    `attempt`: it ended a try, though no rank may have run yet. `noted`: the incident that has the
    fault already.
    """
    job = turn.jobs[name]
    if job.parked or job.finished:
        return
    if fault.node in job.standbys:
        _lose_standby(turn, name, fault)
        return
    fault = shows(fault, *dict.fromkeys((*fault.signs, *seen_before(turn, job, fault))))
    incident = turn.incidents[noted] if noted else incidents.open_or_join(turn, name, fault)
    if fault.apart:
        about = About(job=name, version=job.running.number)
        candidates.note_pair(
            turn, fault.apart, fault.kind, Bearing.ACCUSES, about, one_way=fault.one_way
        )
    if job.seated or attempt:
        _act(turn, name, fault, incident)
    else:
        _not_yet(turn, name, fault, incident)


def _act(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    """A try is over: note it, and take the next step."""
    saved = turn.jobs[name].tally.saved
    if saved:
        facts.all_passed(turn, name)
    job = turn.jobs[name]
    fault = placed(turn, job, fault)
    case = case_of(turn, job, fault)
    table = hypotheses.judge(case)
    payer = budget.payer(job, fault, case, table, incident)
    spent = budget.used_up(turn, job, fault, case, payer)
    if spent and (final := budget.at_last(turn, job, case, payer)) is not None:
        case, table = final
        payer = None
    if payer is None or budget.goes_on(turn, job, case, payer):
        spent = ""
    reason = _over(turn, job, fault, table) or spent
    if not (fault.asked or table.act is Act.WAIT):
        facts.withdraw(turn, job, case)
        facts.note(turn, job, fault, case, table, None if reason else payer)
    if saved:
        facts.all_passed(turn, name)
    if reason:
        done = hypotheses.spent(case) if spent else table
        turn.incident(incident.id, table=done)  # where the budget is spent nothing of it was done
        acts.give_up(turn, name, _users(fault, case, table, incident), incident.id, reason)
        if fault.asked:  # whatever becomes of the job, a person wants its node out
            turn.say(fault.summary)
            acts.evict(turn, fault, incident.id)
        return
    acts.carry_out(turn, name, fault, table, incident.id, tried=True)


def _over(turn: Turn, job: Job, fault: Fault, table: Table) -> str:
    """Why the job is at its end, where nothing but its own script is left."""
    if table.act is not Act.GIVE_UP:
        return ""
    first = root_cause.unstartable(job, exits_of(turn.nodes, job)) if job.tally.ended else ""
    return first or f"{fault.summary}. {table.why[:1].upper()}{table.why[1:]}"


def _users(fault: Fault, case: Case, table: Table, incident: Incident) -> Fault:
    """The fault that ends a job. Where nobody said so it is the script's all the same: of one that
    stood still with its stack."""
    if table.chosen is not Hypothesis.USER or case.fault not in UNSAID:
        return fault
    held = signs.of_hypothesis(Hypothesis.USER)
    return replace(shows(fault, held), traceback=_stack(fault, incident))


def _stack(fault: Fault, incident: Incident) -> str:
    """Of the rank that held the job up, else of the first that was looked at."""
    taken = incident.stacks
    rank = fault.rank if fault.rank in taken else min(taken, default=None)
    return "" if rank is None else f"Stack of rank {rank}:\n{taken[rank]}"


def _not_yet(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    """No rank had run: a node that is plainly bad is replaced, another is tested."""
    act = Act.REPLACE if fault.convicts else Act.EXAM if fault.node is not None else Act.EXAM_ALL
    act = Act.RESTART if fault.weight is Weight.RESTART or fault.blame is Blame.USER else act
    acts.carry_out(turn, name, fault, Table(act=act), incident.id, tried=False)


def _lose_standby(turn: Turn, name: str, fault: Fault) -> None:
    """A bad standby harms nobody: it goes, and the incident is over at once."""
    if not fault.convicts:
        incidents.report(turn, fault, job=name)
        return
    incident = incidents.open_or_join(turn, None, fault)
    if fault.kind not in incidents.LOSSES:  # those may be of several jobs
        turn.incident(incident.id, jobs=(name,), rung=Rung.REPLACE)
    turn.say(f"{fault.summary}: standby {fault.node} of {name} is replaced", name)
    acts.evict(turn, fault, incident.id)
    incidents.close_at_rest(turn, incident, "a standby was lost, no training with it")

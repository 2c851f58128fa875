"""The recovery ladder: the smallest rung that can cure a fault, the next one when it did not.

Called by the machines with a `Fault`. Pure. The rungs are `protocol.faults.Rung`.
"""

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.events import Budget
from holdfast.driver.core.faults import crash_signature, incidents, root_cause
from holdfast.driver.core.job import finish
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.placing import eviction, move_on_suspicion, pairs
from holdfast.driver.core.placing.allocation import leave, schedule
from holdfast.driver.core.placing.candidates import moved_off
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.recovery import hang_sites
from holdfast.driver.core.state.model import Failure, Fault, Incident, Job, Phase, Spent, Wanted
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Rung, Weight

CLIMB = (Rung.IN_PLACE, Rung.DIAGNOSE, Rung.DIAGNOSE_ALL, Rung.GIVE_UP)
"""The way up where a fault comes again; rung 2 is for evidence, not for repetition."""


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
    if _only_standby(job, fault):
        _lose_standby(turn, name, fault)
        return
    incident = turn.incidents[noted] if noted else incidents.open_or_join(turn, name, fault)
    if fault.apart:
        pairs.note(turn, *fault.apart)
    tried = job.seated or attempt
    if tried:
        fault = _noted(turn, name, fault, incident)
        _count(turn, name, incident, fault)
    if reason := _no_more_tries(turn, name, fault) if tried else "":
        _give_up(turn, name, fault, incident.id, reason)
        if fault.asked:  # whatever becomes of the job, a person wants its node out
            turn.say(fault.summary)
            _evict(turn, fault, incident.id)
        return
    _taint(turn, name, fault)
    _climb(turn, name, fault, incident.id, tried=tried)


def _noted(turn: Turn, name: str, fault: Fault, incident: Incident) -> Fault:
    """The fault, with what it tells of a place in the script or of how ranks ended noted."""
    if fault.spot:
        fault = hang_sites.noted(turn, name, fault, incident)
    if fault.signature or turn.jobs[name].tally.saved:
        crash_signature.note(turn, name, fault)
    return fault


def rung_for(policy: Policy, incident: Incident, fault: Fault, *, strikes: int) -> Rung:
    """The rung for this fault, given what its incident and its node have seen."""
    if fault.weight is Weight.CONCLUSIVE and fault.node is not None:
        return Rung.REPLACE
    if fault.blame is Blame.USER:
        return Rung.IN_PLACE
    start = 0 if fault.weight is Weight.RESTART else 1
    same = max(0, incident.tries.get(_key(fault), 0) - 1) // policy.same_fault_tries
    whatever = max(0, sum(incident.tries.values()) - 1) // policy.incident_tries
    steps = start + max(same, whatever)
    if strikes >= policy.strikes:
        steps = max(steps, 1)
    rung = CLIMB[min(steps, len(CLIMB) - 1)]
    return Rung.DIAGNOSE_ALL if rung is Rung.DIAGNOSE and fault.node is None else rung


def _key(fault: Fault) -> str:
    return f"{fault.kind}@{fault.node or ''}"


def _only_standby(job: Job, fault: Fault) -> bool:
    return fault.node is not None and fault.node in job.standbys


def _lose_standby(turn: Turn, name: str, fault: Fault) -> None:
    """A bad standby harms nobody: it goes, and the incident is over at once."""
    if fault.weight is not Weight.CONCLUSIVE or fault.node is None:
        incidents.report(turn, fault, job=name)
        return
    incident = incidents.open_or_join(turn, None, fault)
    if fault.kind not in incidents.LOSSES:  # those may be of several jobs
        turn.incident(incident.id, jobs=(name,), rung=Rung.REPLACE)
    turn.say(f"{fault.summary}: standby {fault.node} of {name} is replaced", name)
    _evict(turn, fault, incident.id)
    if not incident.waiting and not incident.outage:
        incidents.close(turn, incident.id, "a standby was lost, no training with it")


def _count(turn: Turn, name: str, incident: Incident, fault: Fault) -> None:
    """Put the failed try on the accounts of incident, job and node."""
    key = _key(fault)
    turn.incident(incident.id, tries={**incident.tries, key: incident.tries.get(key, 0) + 1})
    job = turn.jobs[name]
    if job.wanted is Wanted.RUN and not fault.asked:
        turn.job(name, spent=(*job.spent, Spent(at_s=turn.now, blame=_payer(turn, job, fault))))
    node = turn.nodes.get(fault.node or "")
    evidence = not (fault.blame is Blame.USER or fault.spared or fault.asked)
    if node is not None and evidence:
        since = turn.now - turn.policy.strike_window_s
        old = [at for at in node.record.strikes if at > since]
        turn.set_record(node.name, replace(node.record, strikes=(*old, turn.now)))


def _payer(turn: Turn, job: Job, fault: Fault) -> Blame:
    """Whose budget a restart comes from: the user's where the cause lies in the ranks."""
    of_ranks = fault.own or fault.signature is not None
    users = fault.blame is Blame.USER or (of_ranks and _in_the_ranks(turn, job, fault))
    return Blame.USER if users else Blame.INFRASTRUCTURE


def _in_the_ranks(turn: Turn, job: Job, fault: Fault) -> bool:
    """A rank dies of itself, or is killed where it was before, and no other node is to be tried
    first, or one was tried already. Of a job of several nodes one may be bad: its tests have found
    nothing then, or the move did not help. Whether the job gets further between the deaths is no
    sign of either.
    """
    if not (fault.own or crash_signature.killed_again(job, fault)):
        return False
    if moved_off(turn, job):
        return True
    alone = job.layout.nodes == 1 or _acquitted(turn, fault)
    return alone and not move_on_suspicion.may_move(turn, job, fault.node)


def _acquitted(turn: Turn, fault: Fault) -> bool:
    """Whether tests of the fault's node have found nothing often enough to be believed."""
    node, since = turn.nodes.get(fault.node or ""), turn.now - turn.policy.strike_window_s
    acquitted = node.record.acquitted if node is not None else ()
    lately = [at_s for at_s in acquitted if at_s > since]
    return len(lately) >= turn.policy.acquittals


def _no_more_tries(turn: Turn, name: str, fault: Fault) -> str:
    """Why another try is refused, or of no use; "" where the job may try again."""
    return _hopeless(turn, turn.jobs[name], fault) or _spent_out(turn, name, fault)


def _hopeless(turn: Turn, job: Job, fault: Fault) -> str:
    """By what ranks have shown; where it is plain that a node is bad they have shown nothing."""
    why = ""
    if job.wanted is Wanted.RUN and job.tally.ended:
        why = root_cause.unstartable(job, exits_of(turn.nodes, job))
    if job.wanted is Wanted.RUN and fault.signature and not why:
        elsewhere = move_on_suspicion.may_move(turn, job, fault.node)
        why = crash_signature.hopeless(job, fault, elsewhere=elsewhere)
    if fault.spot and not why:
        why = hang_sites.used_up(turn, job, fault)
    return why


def _spent_out(turn: Turn, name: str, fault: Fault) -> str:
    """Why the job may not try again; "" where it may. Drops what has left the window."""
    job = turn.jobs[name]
    payer = _payer(turn, job, fault)
    budget: Budget = job.plan.user if payer is Blame.USER else job.plan.infrastructure
    longest_s = max(job.plan.user.window_s, job.plan.infrastructure.window_s)
    spent = tuple(entry for entry in job.spent if entry.at_s > turn.now - longest_s)
    turn.job(name, spent=spent)
    since = turn.now - budget.window_s
    used = sum(1 for entry in spent if entry.blame is payer and entry.at_s > since)
    if job.wanted is not Wanted.RUN or used <= budget.restarts:
        return ""
    return f"{fault.summary}. {crash_signature.killed(job, fault)}{_used_up(budget, payer)}"


def _used_up(budget: Budget, payer: Blame) -> str:
    """`All 3 restarts for user faults within 1 h are used`, in the right number."""
    if budget.restarts == 0:
        return f"No restart is allowed for {payer} faults"
    hours = budget.window_s / 3600
    window = f"{hours:g} h" if hours >= 1 else f"{budget.window_s:g} s"
    if budget.restarts == 1:
        return f"The one restart for {payer} faults within {window} is used"
    return f"All {budget.restarts} restarts for {payer} faults within {window} are used"


def _taint(turn: Turn, name: str, fault: Fault) -> None:
    job = turn.jobs[name]
    if fault.spoils and job.restore is not None:
        point = job.restore
        why = f"once ranks had started from it, {fault.summary}"
        turn.job(name, points=known_points.taint(job, point, why, turn.now))
        turn.say(f"{point} is not used again", name)


def _climb(turn: Turn, name: str, fault: Fault, number: int, *, tried: bool) -> None:
    incident = turn.incidents[number]
    rung = rung_for(turn.policy, incident, fault, strikes=_strikes(turn, name, fault))
    moves = _moves_first(turn, name, fault, rung)
    rung = rung if moves is None else Rung.REPLACE
    alone = tried and rung is Rung.DIAGNOSE
    aside = alone and suspicion.may_begin(turn, turn.jobs[name], fault.node)
    turn.incident(number, rung=max(rung, incident.rung))
    if rung is Rung.GIVE_UP:
        tries = sum(incident.tries.values())
        reason = f"{fault.summary}. {tries} recoveries, with tests of every node, did not cure it"
        _give_up(turn, name, fault, number, reason)
        return
    action = f"try its place on another node than {moves}" if moves else _ACTION[rung]
    action = ASIDE if aside else action
    turn.say(f"{fault.summary}: {action}", name)
    if moves is not None:
        move_on_suspicion.move(turn, name, moves)
    elif rung is Rung.REPLACE:
        _evict(turn, fault, number)
    elif aside and fault.node is not None:
        suspicion.begin(turn, name, fault.node, fault.summary)
    elif rung is Rung.DIAGNOSE and fault.node is not None:
        _suspect(turn, name, (fault.node,))
    elif rung is Rung.DIAGNOSE_ALL:
        _suspect(turn, name, turn.jobs[name].nodes)
    _quiesce(turn, name, again=tried)


def _strikes(turn: Turn, name: str, fault: Fault) -> int:
    """The node's; enough to have it tested where a rank died there as one did before."""
    if fault.own and crash_signature.came_again(turn.jobs[name], fault):
        return turn.policy.strikes
    node = turn.nodes.get(fault.node or "")
    return len(node.record.strikes) if node is not None else 0


def _moves_first(turn: Turn, name: str, fault: Fault, rung: Rung) -> str | None:
    """The node whose place is tried on another one, rather than what the rung is for."""
    if rung < Rung.DIAGNOSE and not fault.spot:
        return None
    job = turn.jobs[name]
    again = fault.own and crash_signature.came_again(job, fault)
    apart = bool(move_on_suspicion.cut_off(turn, job, fault))
    reason = again or apart or rung is Rung.GIVE_UP or _acquitted(turn, fault)
    first = (rung >= Rung.DIAGNOSE and reason) or hang_sites.at_last(turn, job, fault)
    return move_on_suspicion.to_move(turn, job, fault) if first else None


def _give_up(turn: Turn, name: str, fault: Fault, number: int, reason: str) -> None:
    """End the job for this fault: its incident blames whom the failure blames, and what was counted
    as a try that would follow is none."""
    incident, job = turn.incidents[number], turn.jobs[name]
    if incident.kind is fault.kind:
        turn.put_incident(incidents.rooted(incident, replace(fault, evidence=())))
    if job.spent and job.spent[-1].at_s == turn.now:
        turn.job(name, spent=job.spent[:-1])
    finish.fail(turn, name, Failure(traceback=fault.traceback, reason=reason))


ASIDE = "a warm standby takes its place, and the node is tested off the job"

_ACTION = {
    Rung.IN_PLACE: "restart the ranks on the same nodes",
    Rung.REPLACE: "replace the node",
    Rung.DIAGNOSE: "test the node and its neighbours",
    Rung.DIAGNOSE_ALL: "test every node of the job",
}


def _evict(turn: Turn, fault: Fault, incident: int) -> None:
    assert fault.node is not None
    if fault.spared:
        leave(turn, fault.node)
        return
    silent, asked = fault.silent, fault.asked
    eviction.evict(turn, fault.node, incident, fault.summary, silent=silent, asked=asked)


def _suspect(turn: Turn, name: str, nodes: tuple[str, ...]) -> None:
    job = turn.jobs[name]
    new = tuple(node for node in nodes if node in job.places and node not in job.suspects)
    turn.job(name, suspects=(*job.suspects, *new))


def _quiesce(turn: Turn, name: str, *, again: bool) -> None:
    """End what runs. `again`: a new epoch; else nothing runs, and the one under way goes on."""
    job = turn.jobs[name]
    if job.phase in (Phase.PENDING, Phase.ALLOCATING):
        return
    if again:
        turn.move(name, Phase.SUSPENDING)
        schedule(turn)  # first, so that the store is told to be where rank 0 will be
        open_epoch(turn, name)
    elif job.suspects and job.phase is not Phase.DIAGNOSING:
        turn.move(name, Phase.SUSPENDING)

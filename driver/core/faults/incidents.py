"""Incidents: one for each cause, open until all that it hit is back.

Called by the recovery and the machines. Pure. Faults of a job that has an open incident are put
down to it; losses of nodes within a short time are one incident, also across jobs.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Unpack

from msgspec.structs import replace

from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.evidence import signs
from holdfast.driver.core.faults import loss
from holdfast.driver.core.faults.fault import (
    STANDSTILLS,
    WORDS,
    is_another,
    seen_after,
    seen_before,
)
from holdfast.driver.core.state.changes import IncidentChanges
from holdfast.driver.core.state.model import Fault, Incident, Job, Rollback
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import ALL_CLEAR, Blame, Kind, Weight

LOSSES = frozenset({Kind.NODE_LOST, Kind.EXECUTOR_LOST})
"""Kinds that a rack, a switch or a cut network gives to several nodes at once."""

TAKEN_BACK_BY = {told: by for by, told in ALL_CLEAR.items()}

OVERTAKEN = "another fault came before the job was back"
"""How an incident ends whose job ran again, and has to recover anew."""

ACTED_ON = STANDSTILLS | {Kind.COLLECTIVE_MISMATCH}
"""What is done about a standstill that was only reported before."""

KEPT_SIGNS = 32
KEPT_EVIDENCE = 32
"""Pieces of evidence that an incident keeps; its entries in the journal have all."""


def open_or_join(turn: Turn, name: str | None, fault: Fault) -> Incident:
    """The incident that the fault belongs to, with the fault noted in it."""
    job = turn.jobs[name] if name is not None else None
    known = _known(turn, job, fault)
    incident = (
        _opened(turn, fault, _said(turn, job, fault))
        if known is None
        else _joined(turn, known, fault)
    )
    incident = shown(incident, *seen_before(turn, job, fault))
    if job is not None:
        if known is not None:
            _charge_if_users(turn, job, known, incident)
        incident = _hits(turn, job, incident, fault)
    return turn.put_incident(incident)


def _hits(turn: Turn, job: Job, incident: Incident, fault: Fault) -> Incident:
    """The incident with the job among those that it hit; what the job was still at ends here."""
    before = turn.incidents.get(job.incident or job.repeating or 0)
    if before is not None and before.id != incident.id:
        incident = _catching_up(turn, job, before, incident, fault)
        _overtake(turn, job, before, fault)
    turn.job(job.name, incident=incident.id)
    incident = replace(
        incident,
        jobs=_with(incident.jobs, job.name),
        waiting=_with(incident.waiting, job.name),
        closed_s=None,
    )
    if fault.step is None:
        return incident
    return _with_rollback(incident, job, loss.reached(_rollback(incident, job), fault.step))


def _overtake(turn: Turn, job: Job, before: Incident, fault: Fault) -> None:
    """What was lost to `before` ends as the fault begins, which may be long before it is found;
    unless another job comes back by it, or did."""
    if before.resumed_s is None and not _others_at(turn, job, before):
        ran_s = before.found_s if before.restored_s is None else before.restored_s
        ends_s = max(ran_s, turn.now - fault.stalled_s)
        turn.incident(before.id, resumed_s=ends_s, overtaken=True)
    turn.job(job.name, repeating=None)
    if job.incident == before.id:
        back(turn, job.name, OVERTAKEN)


def _others_at(turn: Turn, job: Job, incident: Incident) -> bool:
    """Whether another job is not yet as far as it was before the incident."""
    hit = [turn.jobs[name] for name in incident.jobs if name in turn.jobs and name != job.name]
    return any(incident.id in (each.incident, each.repeating) for each in hit)


def _catching_up(
    turn: Turn, job: Job, before: Incident, incident: Incident, fault: Fault
) -> Incident:
    """The incident knowing that the job still did steps again for `before`, and from which on."""
    rollback = before.rollbacks.get(job.name)
    if rollback is None or rollback.restored is None or job.progressed:
        return incident
    if job.restore is not None or job.best_step is not None:
        since = job.restore.step if job.restore is not None else 0
        return _with_rollback(incident, job, Rollback(before=since, again=True))
    own = [each.status.step for each in exits_of(turn.nodes, job) if each.status.step is not None]
    done = fault.step if fault.step is not None else min(own, default=None)
    reached = None if done is None else rollback.restored + done
    return _with_rollback(incident, job, Rollback(before=reached, again=True))


def _rollback(incident: Incident, job: Job) -> Rollback:
    return incident.rollbacks.get(job.name, Rollback())


def _with_rollback(incident: Incident, job: Job, rollback: Rollback) -> Incident:
    return replace(incident, rollbacks={**incident.rollbacks, job.name: rollback})


def report(turn: Turn, fault: Fault, *, job: str | None = None) -> None:
    """Note something that leads to no action, and is no fault; the same again soon joins what there
    is."""
    turn.say(f"reported: {fault.summary}", *(() if job is None else (job,)))
    for near in tuple(seen_after(turn, fault, turn.jobs.get(job or ""))):
        _tells_more(turn, near, fault)
    if (known := _same_lately(turn, fault, turn.jobs.get(job or ""))) is not None:
        joined = replace(_joined(turn, known, fault), faults=known.faults)
        turn.put_incident(replace(joined, summary=fault.summary))
        return
    opened = turn.put_incident(replace(_opened(turn, fault), faults=0))
    turn.incident(opened.id, jobs=() if job is None else (job,))
    close(turn, opened.id, "reported, nothing was done")


def _tells_more(turn: Turn, near: Incident, fault: Fault) -> None:
    """What is reported shows of an incident what it was, and who is to pay for it."""
    incident = turn.put_incident(shown(near, *fault.signs))
    for job in [turn.jobs[name] for name in near.jobs if name in turn.jobs]:
        if hit(near, job):
            _charge_if_users(turn, job, near, incident)


def _same_lately(turn: Turn, fault: Fault, job: Job | None) -> Incident | None:
    """But for that of an earlier job, which had the name of this one."""
    for incident in reversed(turn.incidents.values()):
        if fault.kind in (TAKEN_BACK_BY.get(incident.kind), ALL_CLEAR.get(incident.kind)):
            return None  # what was so before that is over
        if job is not None and _another_standstill(incident, fault, job):
            return None
        same = _what(incident) == _what(fault)
        other = job is not None and job.name in incident.jobs and not hit(incident, job)
        if same and not other and turn.now - incident.found_s <= turn.policy.report_again_s:
            return incident
    return None


def _what(each: Incident | Fault) -> tuple[object, ...]:
    """What is the same where it is told again. Of words, other ones tell of something else."""
    words = each.signs if each.kind in WORDS else ()
    return each.kind, each.node, each.rank, words


def hit(incident: Incident, job: Job) -> bool:
    """Whether it hit this very job: one that was opened before may still have gone on then."""
    if job.name not in incident.jobs:
        return False
    over = incident.closed_s is not None and incident.closed_s <= job.submitted_s
    return incident.opened >= job.number or not over


def _another_standstill(incident: Incident, fault: Fault, job: Job) -> bool:
    """A standstill is told anew in each attempt, and so is the end of one that was: people who see
    the one see the other."""
    if job.name not in incident.jobs or incident.kind is not Kind.STANDSTILL:
        return False
    earlier = incident.found_s < job.since_s
    return fault.kind is Kind.GOES_ON or (fault.kind is Kind.STANDSTILL and earlier)


def standing(known: Iterable[Incident], job: Job) -> dict[Kind, Incident]:
    """What was reported of the job and not taken back, by kind; the newest of each."""
    found: dict[Kind, Incident] = {}
    for incident in sorted(known, key=lambda each: each.id):
        if job.name not in incident.jobs or incident.opened < job.number:
            continue
        if incident.kind in ALL_CLEAR:
            found.pop(ALL_CLEAR[incident.kind], None)
        elif incident.kind in ALL_CLEAR.values():
            found[incident.kind] = incident
    return found


def note(turn: Turn, job: Job, **changes: Unpack[IncidentChanges]) -> None:
    """Put a fact, e.g. a time, into the job's open incident."""
    if job.incident is not None:
        turn.incident(job.incident, **changes)


def recovers_anew(turn: Turn, job: Job, number: int) -> None:
    """A fault after which its ranks are ended, though they had run again since the one before it:
    what is told of a recovery is of the last one. Not while it is of other jobs, too."""
    incident = turn.incidents[number]
    if job.seated and incident.restored_s is not None and incident.waiting == (job.name,):
        turn.incident(
            number,
            anew_s=turn.now,
            seen_s=None,
            suspended_s=None,
            diagnosed_s=None,
            replaced_s=None,
            seated_s=None,
            restored_s=None,
            grouped_s=None,
            loaded_s=None,
            stepped_s=None,
        )


def note_seen(turn: Turn, job: Job, failed_s: float | None) -> None:
    """When the end of a rank was heard of by which the fault was found; not where a later one
    joined, nor where the job is given up at once."""
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None and turn.now in (incident.found_s, incident.anew_s):
        turn.incident(incident.id, seen_s=failed_s)


def note_starts(turn: Turn, job: Job, ages: Mapping[str, float]) -> None:
    """What the ranks of the attempt that it recovered by told of their start, the last of them."""
    at = {name: turn.now - age_s for name, age_s in ages.items()}
    if at:
        note(
            turn,
            job,
            grouped_s=at.get("group"),
            loaded_s=at.get("restore"),
            stepped_s=at.get("step"),
        )


def note_resumed(turn: Turn, job: Job, before: int | None) -> None:
    """Training goes on. `before`: the highest step of earlier epochs, by which the loss counts."""
    _end_repetition(turn, job)
    note(turn, job, resumed_s=turn.now)
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None and before is not None and job.name in incident.rollbacks:
        lost = loss.furthest(incident.rollbacks[job.name], before)
        incident = turn.put_incident(_with_rollback(incident, job, lost))
    if incident is not None and incident.stepped_s is not None and incident.steps_lost == 0:
        note(turn, job, resumed_s=incident.stepped_s)  # heartbeats tell it later than it was


def note_restored(turn: Turn, job: Job, step: int, reached: int | None) -> None:
    """Ranks start from `step`. `reached`: what the epoch before it left in memory; heartbeats may
    be older than that."""
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None:
        lost = loss.went_back(loss.reached(_rollback(incident, job), reached), step)
        turn.put_incident(_with_rollback(incident, job, lost))


def note_repeats(turn: Turn, job: Job, since: int, before: int) -> None:
    """Its script began again, which had saved step `since`, and had come as far as `before`."""
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None:
        lost = loss.went_back_unseen(loss.furthest(_rollback(incident, job), before), since)
        turn.put_incident(_with_rollback(incident, job, lost))


def steps_known(turn: Turn, job: Job) -> bool:
    """Whether it is known how far the job was before its incident, and where it began again."""
    incident = turn.incidents.get(job.incident or job.repeating or 0)
    own = incident.rollbacks.get(job.name) if incident is not None else None
    return own is not None and own.lost is not None and not own.unseen


def settle(turn: Turn, job: Job, outcome: str) -> None:
    """The job needs its incident no more, though it may still repeat steps, which takes time."""
    incident = turn.incidents[job.incident or 0]
    rollback = incident.rollbacks.get(job.name)
    behind = rollback is not None and (rollback.lost or rollback.again)
    if incident.resumed_s is None and behind:
        turn.job(job.name, repeating=incident.id)
    back(turn, job.name, outcome)


def _end_repetition(turn: Turn, job: Job) -> None:
    """The job is as far as it was before an incident that is over."""
    if job.repeating in turn.incidents:
        turn.incident(job.repeating, resumed_s=turn.now)
    if job.repeating is not None:
        turn.job(job.name, repeating=None)


def back(turn: Turn, name: str, outcome: str) -> None:
    """The job needs its incident no more; the last of its jobs closes it."""
    number = turn.jobs[name].incident
    if number is None:
        return
    turn.job(name, incident=None)
    waiting = tuple(job for job in turn.incidents[number].waiting if job != name)
    close_at_rest(turn, turn.incident(number, waiting=waiting), outcome)


def close(turn: Turn, number: int, outcome: str) -> None:
    """End an incident and let the oldest closed ones go, but for what still holds of a job."""
    turn.incident(number, closed_s=turn.now, outcome=outcome)
    closed = [incident for incident in turn.incidents.values() if not incident.open]
    surplus = max(0, len(closed) - turn.policy.kept_incidents)
    over = (incident.id for incident in closed if not _stands(turn, incident))
    for old in islice(over, surplus):
        turn.incidents.pop(old)


def close_at_rest(turn: Turn, incident: Incident, outcome: str) -> None:
    """End it, unless a job has to recover from it, or nodes are still silent."""
    if not incident.waiting and not incident.outage:
        close(turn, incident.id, outcome)


def _stands(turn: Turn, incident: Incident) -> bool:
    """Whether it was told of a job that goes on, and was neither taken back nor told again."""
    if incident.kind not in TAKEN_BACK_BY:
        return False
    jobs = [job for name in incident.jobs if (job := turn.jobs.get(name)) and not job.finished]
    told = [standing(turn.incidents.values(), job).get(incident.kind) for job in jobs]
    return any(each is not None and each.id == incident.id for each in told)


def _known(turn: Turn, job: Job | None, fault: Fault) -> Incident | None:
    """The job's open incident, unless this is another; a loss of nodes that came at about the same
    time, or the same failed self-test of a standby that was not evicted for it."""
    recovering = turn.incidents[job.incident] if job and job.incident is not None else None
    if job is not None and recovering is not None and not is_another(job, recovering, fault):
        return recovering
    if job is None and fault.kind is Kind.DIAGNOSTIC_FAILED:
        return _same_lately(turn, fault, None)
    if fault.kind not in LOSSES or fault.weight is not Weight.CONCLUSIVE:
        return None
    for incident in reversed(turn.incidents.values()):
        near = turn.now - incident.found_s <= turn.policy.correlation_s
        if incident.kind in LOSSES and (near or (incident.outage and incident.open)):
            return incident
    return None


def _said(turn: Turn, job: Job | None, fault: Fault) -> Incident | None:
    """The report of the standstill that is acted on now, where its attempt has not gone on since:
    to people both are one."""
    if job is None or fault.kind not in ACTED_ON:
        return None
    for incident in reversed(turn.incidents.values()):
        if job.name in incident.jobs and incident.found_s >= job.since_s:
            if incident.kind is Kind.GOES_ON or incident.faults:
                return None
            if incident.kind is Kind.STANDSTILL:
                return incident
    return None


def _opened(turn: Turn, fault: Fault, said: Incident | None = None) -> Incident:
    """`said`: that it was, as a report, whose incident it becomes."""
    turn.incident_count += said is None
    return Incident(
        id=turn.incident_count if said is None else said.id,
        opened=turn.sequence if said is None else said.opened,
        kind=fault.kind,
        blame=fault.blame,
        signs=fault.signs or (signs.of_kind(fault.kind),),
        found_s=turn.now,
        stalled_s=fault.stalled_s,
        summary=fault.summary,
        node=fault.node,
        rank=fault.rank,
        nodes=() if fault.node is None else (fault.node,),
        evidence=fault.evidence,
    )


def explain(turn: Turn, job: Job, fault: Fault) -> None:
    """What was taken for the loss of a node's executor was this fault, the user's."""
    incident = turn.incidents.get(job.incident or 0)
    if incident is not None and incident.kind in LOSSES and incident.node == fault.node:
        _charge_user(turn, job, since_s=incident.found_s)
        turn.put_incident(rooted(incident, fault))


def _charge_if_users(turn: Turn, job: Job, before: Incident, incident: Incident) -> None:
    """Where what was seen since makes it the user's."""
    if before.blame is not incident.blame is Blame.USER:
        _charge_user(turn, job, since_s=before.found_s)


def _charge_user(turn: Turn, job: Job, *, since_s: float) -> None:
    """Recoveries whose cause turns out to be the user's come from the user's budget."""
    facts = [
        replace(each, payer=Blame.USER) if each.payer and each.at_s >= since_s else each
        for each in job.facts
    ]
    turn.job(job.name, facts=tuple(facts))


def rooted(incident: Incident, fault: Fault) -> Incident:
    """The incident with this fault as its cause; what was known before stays as evidence."""
    return replace(
        incident,
        kind=fault.kind,
        blame=fault.blame,
        signs=fault.signs or (signs.of_kind(fault.kind),),
        summary=fault.summary,
        node=fault.node,
        rank=fault.rank,
        nodes=incident.nodes if fault.node is None else _with(incident.nodes, fault.node),
        evidence=(*fault.evidence, *incident.evidence)[:KEPT_EVIDENCE],
        latest="",
    )


def signs_of(incident: Incident) -> tuple[str, ...]:
    """What an earlier Holdfast wrote has no signs but its kind."""
    return incident.signs or (signs.of_kind(incident.kind),)


def shown(incident: Incident, *names: str) -> Incident:
    """The incident with what else was seen of it."""
    if not names:
        return incident
    known = tuple(dict.fromkeys((*signs_of(incident), *names)))[:KEPT_SIGNS]
    return replace(incident, signs=known, blame=signs.judge(known).blame)


def _names_nobody(incident: Incident) -> bool:
    """True while only its symptoms are known. (A loss of nobody is that of all: an outage.)"""
    return incident.node is None and incident.kind not in LOSSES


def _joined(turn: Turn, incident: Incident, fault: Fault) -> Incident:
    """Its signs stay those of its cause: what follows may come of that."""
    if fault.node is not None and _names_nobody(incident):
        incident, fault = rooted(incident, fault), replace(fault, evidence=())
    return replace(
        incident,
        faults=incident.faults + 1,
        again_s=turn.now,
        latest=fault.summary,
        nodes=incident.nodes if fault.node is None else _with(incident.nodes, fault.node),
        evidence=(*incident.evidence, *fault.evidence)[:KEPT_EVIDENCE],
    )


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)

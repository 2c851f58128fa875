"""Doing what was chosen about a fault of a job. Pure: one function an act."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.evidence import book, signs
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job import eviction, finish, move_on_suspicion
from holdfast.driver.core.job.allocation import leave, schedule
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.recovery import case_of
from holdfast.driver.core.recovery.case_of import version_before
from holdfast.driver.core.state.fact import About, Act, Bearing, Fact, OfPoint, Table
from holdfast.driver.core.state.model import Failure, Fault, Incident, Job, Phase, Rollback, Timer
from holdfast.driver.core.state.restore_point import RestorePoint, Verified
from holdfast.driver.core.state.versions import Version, with_newer
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.turn import Turn
from holdfast.protocol import origins
from holdfast.protocol.faults import Kind, Rung, Sure


class How(NamedTuple):
    """How an act is done, and told."""

    rung: Rung  # what it costs, on the ladder that people know
    sentence: str
    do: Callable[[Turn, str, Fault, Incident], None] | None  # None: ranks start anew, and no more


def carry_out(
    turn: Turn, name: str, fault: Fault, table: Table, number: int, *, tried: bool
) -> None:
    """Do it, and end what runs. `tried`: ranks may have run: a new epoch follows."""
    if table.act is not Act.WAIT:
        incidents.recovers_anew(turn, turn.jobs[name], number)
    incident = turn.incidents[number]
    how = ACTS[table.act]
    turn.incident(number, rung=max(how.rung, incident.rung), table=table)
    turn.say(f"{fault.summary}: {_said(turn, name, fault, table)}{_origin(fault)}", name)
    if how.do is not None:
        how.do(turn, name, fault, incident)
    if table.act is not Act.WAIT:
        _quiesce(turn, name, again=tried)


def _said(turn: Turn, name: str, fault: Fault, table: Table) -> str:
    sentence = ACTS[table.act].sentence
    if table.act is Act.MOVE_COLD:
        return f"{sentence} than {move_on_suspicion.to_move(turn, turn.jobs[name], fault)}"
    return f"{table.why}: {sentence}" if table.act is Act.WAIT else sentence


def _origin(fault: Fault) -> str:
    """` (likely GPU)`, where signs tell more than the kind of fault does."""
    verdict = signs.judge(fault.signs)
    if fault.signs in ((), (signs.of_kind(fault.kind),)) or verdict.sure is Sure.NOT_SURE:
        return ""
    return f" ({origins.told(verdict.origin or '', verdict.sure)})"


def give_up(turn: Turn, name: str, fault: Fault, number: int, reason: str) -> None:
    """End the job for this fault: its incident blames whom the failure blames."""
    incident = turn.incidents[number]
    if incident.kind is fault.kind:
        turn.put_incident(incidents.rooted(incident, replace(fault, evidence=())))
    turn.incident(number, rung=Rung.GIVE_UP)
    finish.fail(turn, name, Failure(traceback=fault.traceback, reason=reason))


def evict(turn: Turn, fault: Fault, number: int) -> None:
    """Take the fault's node out of use, or only off its job where nothing is held against it."""
    assert fault.node is not None
    if fault.spared:
        leave(turn, fault.node)
        if fault.silent:  # what the brake counts, for it bounds who goes for silence alone
            record = turn.nodes[fault.node].record
            turn.set_record(fault.node, replace(record, evicted_s=turn.now, silenced=True))
        return
    silent, asked = fault.silent, fault.asked
    eviction.evict(turn, fault.node, number, fault.summary, silent=silent, asked=asked)


# ---------------------------------------------------------------- one an act


def _wait(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    since_s = turn.now if fault.waits_s is None else fault.waits_s
    turn.job(name, held=replace(fault, waits_s=since_s))
    turn.set_timer(name, Timer.STACKS, case_of.LOOK_AGAIN_S)


def _replace(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    evict(turn, fault, incident.id)


def _move_warm(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    """The node is tested before others have it: alone where nobody is free to be tested beside it,
    and not at all while the brake is on."""
    job, node = turn.jobs[name], fault.node
    if node is None or _accused_enough(turn, node, incident):
        return
    if not suspicion.may_be_tested(turn, job, node):
        move_on_suspicion.move(turn, name, node)
        return
    beside = None if suspicion.may_begin(turn, job, node) else ()
    suspicion.begin(turn, name, node, fault.summary, beside=beside)


def _move_cold(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    node = move_on_suspicion.to_move(turn, turn.jobs[name], fault)
    if node is not None and not _accused_enough(turn, node, incident):
        move_on_suspicion.move(turn, name, node)


def _accused_enough(turn: Turn, node: str, incident: Incident) -> bool:
    """Put a node into quarantine that several jobs have accused, each by itself. A move alone is no
    conviction."""
    count = book.accusers(turn.nodes[node].record.facts, turn.now)
    if count < book.ACCUSERS:
        return False
    why = f"faults of {count} jobs or versions stood out there within 7 days"
    eviction.evict(turn, node, incident.id, why)
    return True


def _swap(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    turn.job(name, swaps=fault.node or fault.place or "")


def _exam(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    if fault.node is not None:
        _suspect(turn, name, (fault.node,))


def _exam_all(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    _suspect(turn, name, turn.jobs[name].nodes)


def _suspect(turn: Turn, name: str, nodes: tuple[str, ...]) -> None:
    job = turn.jobs[name]
    new = tuple(node for node in nodes if node in job.places and node not in job.suspects)
    turn.job(name, suspects=(*job.suspects, *new))


def _step_back(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    """What the ranks started from is not used again, nor what was saved shortly before it: one
    mistake may be in all of it. Of what is only damaged there may be another copy."""
    job = turn.jobs[name]
    if (point := job.restore) is None:
        return
    lost = incident.rollbacks.get(name, Rollback()).lost or 0
    after = point.step if fault.kind is Kind.CHECKPOINT_CORRUPT else _back_to(job, point, lost)
    why = f"once ranks had started from it, {fault.summary}"
    turn.job(name, points=known_points.taint(job, point, why, turn.now, after))
    of = OfPoint(job=name, step=point.step, epoch=point.epoch, where=point.where)
    about = About(job=name, version=job.running.number)
    turn.add_fact(Fact(subject=of, what=why, bearing=Bearing.ACCUSES, about=about))
    turn.say(f"{point} is not used again", name)


def _back_to(job: Job, point: RestorePoint, lost: int) -> int:
    """As many steps back again as were lost already, so that a few starts go back any distance; but
    not behind what ranks got on from, nor so far that only the beginning would be left."""
    older = known_points.older(job)
    verified = (each.step for each in older if isinstance(each.status, Verified))
    return max(point.step - lost, older[0].step if older else point.step, *verified)


def _version_before(turn: Turn, name: str, fault: Fault, incident: Incident) -> None:
    """Its plan becomes the newest version: what ran when is told by the numbers."""
    job = turn.jobs[name]
    before = version_before(job)
    old = next(each for each in job.versions if each.number == before)
    number = job.version.number + 1
    by = f"version {old.number}"
    new = Version(number=number, plan=old.plan, at_s=turn.now, by=by, again=old.number)
    turn.put_job(replace(job, versions=with_newer(job.versions, new)))
    turn.say(f"{name} runs version {old.number} again, as version {number}", name)


ACTS = {
    Act.WAIT: How(Rung.NONE, "wait, and accuse nobody", _wait),
    Act.RESTART: How(Rung.IN_PLACE, "restart the ranks on the same nodes", None),
    Act.MOVE_WARM: How(Rung.REPLACE, "a warm standby takes its place", _move_warm),
    Act.SWAP: How(Rung.IN_PLACE, "swap its place with another node of the job", _swap),
    Act.EXAM: How(Rung.DIAGNOSE, "test the node and its neighbours", _exam),
    Act.MOVE_COLD: How(Rung.REPLACE, "try its place on another node", _move_cold),
    Act.REPLACE: How(Rung.REPLACE, "replace the node", _replace),
    Act.STEP_BACK: How(Rung.IN_PLACE, "start from another restore point", _step_back),
    Act.VERSION_BEFORE: How(Rung.IN_PLACE, "run the version before", _version_before),
    Act.EXAM_ALL: How(Rung.DIAGNOSE_ALL, "test every node of the job", _exam_all),
}
"""All but to give the job up, which ends it: see `give_up`."""


def _quiesce(turn: Turn, name: str, *, again: bool) -> None:
    """End what runs. `again`: a new epoch; else nothing runs, and the one under way goes on."""
    job: Job = turn.jobs[name]
    if job.phase in (Phase.PENDING, Phase.ALLOCATING):
        return
    if again:
        turn.move(name, Phase.SUSPENDING)
        schedule(turn)  # first, so that the store is told to be where rank 0 will be
        open_epoch(turn, name)
    elif job.suspects and job.phase is not Phase.DIAGNOSING:
        turn.move(name, Phase.SUSPENDING)

"""A fault of a job as a case for the table of hypotheses.

Called by the ladder. Pure.
"""

from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.evidence.act import Act
from holdfast.driver.core.evidence.case import Case, Ways
from holdfast.driver.core.faults import root_cause
from holdfast.driver.core.placing import move_on_suspicion
from holdfast.driver.core.state.fact import Fact, FaultClass, OfNode, Site
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind, Weight

SAID = frozenset({Kind.USER_EXCEPTION, Kind.ENDED_EARLY, Kind.OUT_OF_MEMORY})
"""What scripts tell of themselves; also an exit code, see `class_of`."""
STANDSTILLS = frozenset({Kind.HANG, Kind.NO_PROGRESS})


def case_of(turn: Turn, job: Job, fault: Fault) -> Case:
    """As it is before the fault itself is noted."""
    node = machine(turn, fault.node) if not (fault.spared or fault.asked) else None
    kind, version = class_of(fault), job.version.number
    start = job.restore.step if job.restore is not None else 0
    return Case(
        now=turn.now,
        fault=kind,
        nodes=job.layout.nodes,
        past=tuple(each for each in job.facts if _alike(each, kind, version)),
        site=site_of(fault, start),
        what=fault.kind,
        hang=fault.kind in STANDSTILLS,
        node=node,
        place=job.places.index(fault.node) if fault.node in job.places else None,
        began=(reached(fault) or 0) > start,
        restored=job.restore is not None,
        convicted=_convicted(fault),
        suspected=fault.summary if fault.weight is Weight.SUSPECT else "",
        acquitted=_acquitted(turn, fault),
        apart=move_on_suspicion.cut_off(turn, job, fault),
        hopeless=hopeless(turn, job, fault),
        version=version,
        before=before(job),
        pauses=turn.policy.spot_tries,
        ways=Ways(acts=ways(turn, job, fault)),
    )


def _alike(fact: Fact, kind: FaultClass, version: int) -> bool:
    return fact.fault == kind and fact.about.version == version


def class_of(fault: Fault) -> FaultClass:
    """Who told of it."""
    if fault.kind in STANDSTILLS:
        return FaultClass.STOOD if fault.spot else FaultClass.DIED
    end = fault.signature
    if fault.kind in SAID or (end is not None and end.how.startswith("exit code")):
        return FaultClass.SAID
    return FaultClass.DIED


def site_of(fault: Fault, start: int) -> Site | None:
    """Where it was in the script; None where it says nothing of that."""
    if fault.spot:
        return Site(words=fault.spot)
    end = fault.signature
    if end is not None:
        since = 0 if end.relative else start
        return Site(words=end.how, step=end.step, fresh=end.step <= since)
    if fault.kind in STANDSTILLS and fault.step is not None:
        return Site(words=fault.kind, step=fault.step, fresh=fault.step <= start)
    return None


def reached(fault: Fault) -> int | None:
    """The step that was completed when it came."""
    return fault.signature.step if fault.signature is not None else fault.step


def machine(turn: Turn, name: str | None) -> OfNode | None:
    """The node and which machine has its name; None for one that is not known."""
    node = turn.nodes.get(name or "")
    return None if node is None else OfNode(name=node.name, machine=node.machine)


def _convicted(fault: Fault) -> str:
    plain = fault.weight is Weight.CONCLUSIVE and fault.node is not None
    return fault.summary if plain else ""


def _acquitted(turn: Turn, fault: Fault) -> bool:
    """Whether tests of the node have found nothing lately."""
    node = turn.nodes.get(fault.node or "")
    return node is not None and bool(node.record.acquitted)


def hopeless(turn: Turn, job: Job, fault: Fault) -> str:
    """Why no restart can help, as the ranks' own words have it."""
    end = fault.signature
    if end is not None and end.unread and job.attempt <= 1 and not job.best_step:
        return "Python cannot read the script, or what it imports"
    if fault.kind is Kind.START_FAILED and job.tally.ended:
        return root_cause.unstartable(job, exits_of(turn.nodes, job))
    return ""


def before(job: Job) -> int | None:
    """The newest version before this one that has run."""
    number = job.version.number
    ran = {attempt.version for attempt in job.history if attempt.version < number}
    return max(ran, default=None)


def ways(turn: Turn, job: Job, fault: Fault) -> frozenset[Act]:
    """What could be done now."""
    acts = {Act.RESTART, Act.GIVE_UP, Act.EXAM, Act.EXAM_ALL, Act.WAIT}
    if suspicion.may_begin(turn, job, fault.node):
        acts.add(Act.MOVE_WARM)
    if move_on_suspicion.to_move(turn, job, fault) is not None:
        acts.add(Act.MOVE_COLD)
    if older_point(job):
        acts.add(Act.STEP_BACK)
    return frozenset(acts)


def older_point(job: Job) -> bool:
    """Whether a point is known that is older than the one that ranks started from."""
    start = job.restore
    return start is not None and any(
        point.usable and point.step < start.step for point in job.points
    )

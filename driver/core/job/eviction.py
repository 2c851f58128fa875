"""Taking nodes out of use, with brakes: never too many at once, fewest for silence alone.

Called by the recovery, the diagnosis, exams and requests. Pure. Where more are to go at once than
may, that is a mass failure, and more likely our own mistake: then nobody is evicted any more until
a person has looked and releases the brake. What is held back leaves its job nevertheless, for it is
of no use there, but it only rests: no quarantine, and no test before it comes back.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.driver.core.effects import Trust
from holdfast.driver.core.events import BrakeApplyRequested, BrakeRequest
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job.allocation import leave, rest
from holdfast.driver.core.state.fact import Bearing
from holdfast.driver.core.state.model import Brake, Fault, Job, Phase
from holdfast.driver.core.state.node import (
    ExamSetup,
    Held,
    Lent,
    Node,
    Promised,
    Quarantined,
    Record,
    Source,
    Suspect,
    Trusted,
)
from holdfast.driver.core.state.orders import mark
from holdfast.driver.core.turn import Turn

DRY_RUN = "this driver only says what it would evict"


def may_evict(turn: Turn, *, silent: bool) -> bool:
    """True while one more node may be evicted without a person's word."""
    held = turn.brake.on or turn.policy.dry_run
    return not (held or too_many(turn, silent=silent))


def too_many(turn: Turn, *, silent: bool) -> bool:
    """True where the share of nodes evicted lately leaves no room for one more."""
    lately = _lately(turn)
    if len(lately) >= cap(turn, turn.policy.eviction_share):
        return True
    silenced = sum(1 for node in lately if node.record.silenced)
    return silent and silenced >= cap(turn, turn.policy.silence_share)


def cap(turn: Turn, share: float) -> int:
    """How many nodes this share is: at least one."""
    return max(1, int(_size(turn) * share))


def _size(turn: Turn) -> int:
    """Of how many nodes the shares are: those that are there, or held, or that were lately. A
    cluster that grows and shrinks knows the names of many more, and one more at each change.
    """
    since = turn.now - turn.policy.at_once_s
    lately = {node.name for node in _lately(turn)}
    census = turn.census
    away = census.away.values()
    left = {node.name for node in away if node.gone_s is not None and node.gone_s > since}
    return census.there + len(left | {node.name for node in away if node.name in lately})


def _lately(turn: Turn) -> list[Node]:
    """Nodes that were evicted within the window, and since the brake was released."""
    since = max(turn.now - turn.policy.at_once_s, turn.brake.at_s)
    evicted = ((node, node.record.evicted_s) for node in turn.census.evicted.values())
    return [node for node, at_s in evicted if at_s is not None and at_s > since]


def evict(
    turn: Turn,
    node: str,
    incident: int,
    reason: str,
    *,
    silent: bool = False,
    asked: bool = False,
    node_class: Mapping[str, float] | None = None,
) -> None:
    """Take the node from its job and, within the brake, out of use: until it passes its tests, or
    a person restores it.

    `asked`: a person decided; no brake, and no tests. `node_class`: what it was measured against,
    and has to reach when it is alone.
    """
    job = turn.jobs.get(turn.nodes[node].job or "")
    if asked and job is not None and stays(job, node):
        turn.job(job.name, leaving=tuple(dict.fromkeys((node, *job.leaving))))
        turn.say(f"{node} goes once {job.name} has let it go", job.name)
    elif isinstance(turn.nodes[node].holding, Promised | Held | Lent):
        leave(turn, node)
    known = turn.nodes[node].trust
    setup = known.setup if isinstance(known, Suspect) else None
    if job is not None:
        setup = setup_of(job, node_class)
    if not asked and not may_evict(turn, silent=silent):
        _hold_back(turn, node, reason)
        return
    quarantine = Quarantined(why=reason, incident=incident, by_person=asked, setup=setup)
    record = replace(turn.nodes[node].record, evicted_s=turn.now, silenced=silent)
    turn.set_trust(node, quarantine)
    turn.set_record(node, record)
    if setup and not asked:
        wait_for_exam(turn, node)
    turn.order(mark(node, quarantine))
    turn.say(f"{node} is evicted")
    evicted = turn.incidents[incident].evicted
    turn.incident(incident, evicted=evicted if node in evicted else (*evicted, node))


def evict_at_rest(
    turn: Turn, fault: Fault, outcome: str, *jobs: str, reason: str = "", asked: bool = False
) -> None:
    """Evict a node where no job has to recover from that: its incident is over at once. `jobs`:
    whose last decision that is."""
    assert fault.node is not None
    incident = incidents.open_or_join(turn, None, fault)
    turn.say(fault.summary, *jobs)
    evict(turn, fault.node, incident.id, reason or fault.summary, asked=asked)
    incidents.close_at_rest(turn, incident, outcome)


def stays(job: Job, node: str) -> bool:
    """Whether what people evict is left with its job for now: that is parked, and what runs goes
    on, or its ranks have their grace to end for good, and it gives its nodes back then."""
    ends = not job.goes_on and job.phase is Phase.SUSPENDING
    return node in job.places and (ends or bool(job.parked and job.seated))


def setup_of(job: Job, node_class: Mapping[str, float] | None = None) -> ExamSetup:
    """What a node is tested with that was the job's. `node_class`: instead of the job's own."""
    plan = job.plan
    return ExamSetup(
        job=job.name,
        spec=plan.spec,
        node_class={**plan.node_class, **(node_class or {})},
        diagnose_s=plan.diagnose_s,
    )


def wait_for_exam(turn: Turn, node: str) -> None:
    """Have the node tested after a while: twice as long as the last time."""
    record = turn.nodes[node].record
    first_s, last_s = turn.policy.requalify_after_s, record.exam_wait_s
    wait_s = max(first_s, min(2 * last_s, turn.policy.requalify_longest_s))
    turn.set_record(node, replace(record, exam_wait_s=wait_s))
    put_exam(turn, node, wait_s)


def put_exam(turn: Turn, node: str, after_s: float) -> None:
    """The next tests of a node that is out are due after so long."""
    known = turn.nodes[node].trust
    if not isinstance(known, Trusted):
        turn.set_trust(node, replace(known, exam_s=turn.now + after_s))


def trust(turn: Turn, node: str, *, asked: bool) -> None:
    """Use the node again. `asked`: a person decided; what was against it counts no more."""
    known = turn.nodes[node].record
    # A test that found nothing clears what convicted the node, and leaves the rest.
    left = tuple(fact for fact in known.facts if fact.bearing is not Bearing.CONVICTS)
    record = Record(cleared=known.cleared) if asked else replace(known, facts=left)
    turn.set_trust(node, Trusted(unmark=True))
    turn.set_record(node, record)
    turn.object_to(node, Source.REST, None)
    turn.order(Trust(node=node))


def _hold_back(turn: Turn, node: str, reason: str) -> None:
    """Let the node rest instead, and say what would have been done."""
    if not (turn.policy.dry_run or turn.brake.on):
        _notice_mass(turn, node)
    why = "too many were evicted lately"
    if turn.policy.dry_run:
        why = DRY_RUN
    elif turn.brake.on:
        why = f"the brake is on: {turn.brake.why}"
    rest(turn, node, f"it would be evicted ({reason}), but {why}")
    turn.say(f"{node} would be evicted and is only left out: {why}")


# ---------------------------------------------------------------- the brake


def _notice_mass(turn: Turn, node: str) -> None:
    """Put the brake on where a mass failure is being dealt with node by node."""
    lately = len(_lately(turn))
    if lately >= cap(turn, turn.policy.eviction_share):
        window_s = turn.policy.at_once_s
        why = f"{lately} of {_size(turn)} nodes were evicted within {window_s:g} s, {node} next"
        _put_brake(turn, True, why)


def on_brake(turn: Turn, event: BrakeRequest) -> None:
    """A person wants nobody evicted but by people; or has looked, and what was evicted before
    counts no more."""
    on = isinstance(event, BrakeApplyRequested)
    if turn.brake.on is not on:
        _put_brake(turn, on, f"{event.who}: {event.reason}")


def _put_brake(turn: Turn, on: bool, why: str) -> None:
    turn.brake = Brake(on=on, why=why, at_s=turn.now)
    word = "put on, nobody is evicted any more" if on else "released"
    turn.say(f"the brake is {word} ({why})")

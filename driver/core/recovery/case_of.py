"""A fault of a job as a case for the table of hypotheses, and whether the driver sees well enough
to accuse anybody.

Called by `recover`, before the fault is noted. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points, saving
from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.evidence import book, case, same
from holdfast.driver.core.evidence.case import Case, Ways
from holdfast.driver.core.evidence.same import Rate
from holdfast.driver.core.faults import bad_loss, never_began, root_cause
from holdfast.driver.core.faults.fault import STANDSTILLS, class_of, from_memory, site_of
from holdfast.driver.core.job import candidates, eviction, move_on_suspicion
from holdfast.driver.core.recovery import budget
from holdfast.driver.core.state.fact import Act, Bearing, Fact, FaultClass, OfNode
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.state.node import Broken
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.telemetry.analysis import ends

ENDS = frozenset({FaultClass.SAID, FaultClass.DIED})
LEAVES = book.MOVES | {Act.REPLACE}
"""What is done about a node that is held to be behind a fault."""


def case_of(turn: Turn, job: Job, fault: Fault) -> Case:
    """The fault, the facts, and what may be done."""
    kind, node = class_of(fault), _named(turn, job, fault)
    number = job.running.number
    past = _past(turn, job, kind)
    named, before = (node, *(fact.about.node for fact in past)), version_before(job)
    cost_s = case.measured_s(turn.incidents.values())
    return Case(
        now=turn.now,
        began_s=turn.now - fault.stalled_s,
        fault=kind,
        nodes=job.layout.nodes,
        what=fault.kind,
        past=past,
        still_used=frozenset(each.name for each in named if each is not None) & set(job.places),
        site=site_of(job, fault),
        hang=fault.kind in STANDSTILLS,
        node=node,
        shown=fault.node is None,
        assumed=bool(fault.place) and fault.kind in STANDSTILLS,
        place=job.places.index(node.name) if node and node.name in job.places else None,
        soon=_soon(turn, job, node),
        restored=job.restore is not None,
        scratch=not known_points.older(job),
        retention=job.plan.task.retention if job.plan.task.store_url else 0,
        refused=_refused(job, fault),
        convicted=fault.summary if fault.convicts else "",
        fallback=_fallback(turn, job, fault),
        suspected=fault.summary if fault.weight is Weight.SUSPECT else "",
        acquitted=node is not None and _acquitted(turn, node.name),
        cut_off=candidates.cut_off(turn, job, fault),
        of_script=fault.blame is Blame.USER,
        apart=bool(fault.apart),
        blind=hindered(turn, job, fault),
        hopeless=_hopeless(turn, job, fault),
        before=before,
        rate=rate_of(turn, job, kind, number, this=1),
        rate_before=Rate(0, 0.0) if before is None else rate_of(turn, job, kind, before),
        said_of_it=_said_of_it(job),
        pauses=turn.policy.spot_tries - 1,
        outside=fault.signature is not None and fault.signature.outside,
        fix=fault.fix,
        earned=budget.earned(turn, job, fault, case.cost_s(Act.RESTART, cost_s)),
        ways=Ways() if fault.convicts else _ways(turn, job, fault, cost_s),
    )


def placed(turn: Turn, job: Job, fault: Fault) -> Fault:
    """A standstill that names nobody, where one node of the job stands out by those that did: it is
    held to be on that node, too, though it says nothing against it."""
    if fault.kind not in STANDSTILLS or fault.node or fault.place or fault.doubt:
        return fault
    past = (each for each in _past(turn, job, class_of(fault)) if each.stood)
    named = [node for fact in past if (node := fact.about.named) is not None]
    node = same.usual(named, job.layout.nodes)
    there = node is not None and node.name in job.places
    return replace(fault, place=node.name) if node is not None and there else fault


def _past(turn: Turn, job: Job, kind: FaultClass) -> tuple[Fact, ...]:
    """Earlier faults of the class and version. What is older than its half-life counts no more,
    though it is known still, and what came on a machine that people have cleared since is void: it
    is no sign of that machine, nor of another one."""
    number, now = job.running.number, turn.now
    own = (each for each in job.facts if each.fault is kind and each.about.version == number)
    lately = (each for each in own if book.counts(each, now))
    return tuple(each for each in lately if not _cleared_since(turn, each.about.node))


def _cleared_since(turn: Turn, node: OfNode | None) -> bool:
    now = machine(turn, node.name) if node is not None else None
    if node is None or now is None:
        return False
    return now.machine == node.machine and now.cleared != node.cleared


def _named(turn: Turn, job: Job, fault: Fault) -> OfNode | None:
    """The node that the fault names, or on which alone it showed; None where nothing is held
    against it, or who it was may be chance."""
    if fault.spared or fault.asked or fault.doubt:
        return None
    only = job.host if job.layout.nodes == 1 else None
    return machine(turn, fault.node or fault.place or only)


def machine(turn: Turn, name: str | None) -> OfNode | None:
    """The node and which machine has its name; None for one that is not known."""
    node = turn.nodes.get(name or "")
    return None if node is None else node.subject


def _fallback(turn: Turn, job: Job, fault: Fault) -> Act | None:
    """What is done about a node that is not heard, where no other may take its place: it is waited
    for as long as another one would need to come. None: it is replaced."""
    node = turn.nodes.get(fault.node or "")
    silent = fault.kind is Kind.NODE_LOST and node is not None and node.present
    if node is None or not silent or move_on_suspicion.may_move(turn, job, node.name):
        return None
    waited_s = turn.now - turn.incidents[job.incident or 0].found_s
    if node.connected and waited_s:
        return Act.RESTART
    if isinstance(node.link, Broken):  # the incident may have begun long before, by another fault
        waited_s = min(waited_s, turn.now - node.link.since_s)
    return Act.WAIT if waited_s < turn.policy.connect_s else None


def _refused(job: Job, fault: Fault) -> str:
    """Of memory. What a store has may be read well on another node."""
    return fault.summary if fault.kind is Kind.CHECKPOINT_CORRUPT and from_memory(job) else ""


def _soon(turn: Turn, job: Job, node: OfNode | None) -> bool:
    """Whether another node is on its way back that its place could move to."""
    if node is None:
        return False
    known = candidates.unwanted(turn, job, without=node.name)
    return any(each not in known for each in turn.census.coming(turn.now))


def _acquitted(turn: Turn, node: str) -> bool:
    since_s = turn.now - book.HALF_LIFE_S
    return book.acquitted(turn.nodes[node].record.facts, since_s)


def _hopeless(turn: Turn, job: Job, fault: Fault) -> str:
    """Why no restart can help, by what ranks have shown; "" where one may."""
    if not job.goes_on:
        return ""
    if fault.kind is Kind.LOSS:
        return bad_loss.hopeless(job, fault)
    ended = exits_of(turn.nodes, job) if job.tally.ended else ()
    if ended and root_cause.unstartable(job, ended):
        return "it cannot be started"
    if ended and version_before(job) is None and root_cause.misfits(ended):
        return "another restart would not help"
    why = _unread(job, fault) or (never_began.why(job, ended, turn.now) if ended else "")
    return f"{why}: another restart would not help" if why else ""


def _unread(job: Job, fault: Fault) -> str:
    end = fault.signature
    if end is None or not end.unread or job.attempt > 1 or job.best_step:
        return ""
    ran = ends.ran(fault.traceback)
    return "Python cannot read what it imports" if ran else "No line of the script ran"


def _said_of_it(job: Job) -> Fact | None:
    """What a person said last for or against the version that the job runs."""
    told = (each for each in job.facts if each.by and each.bearing is not Bearing.CONTEXT)
    return next((each for each in reversed([*told]) if each.subject == job.subject), None)


def version_before(job: Job) -> int | None:
    """The newest version before this one that has run with as many ranks. Neither one that was left
    for its faults, nor the same under another number."""
    ran = {attempt.version for attempt in job.history}
    left = {fact.about.version for fact in job.facts if fact.done is Act.VERSION_BEFORE}
    fits = (
        each.number
        for each in job.versions
        if each.number in ran - left
        and each.number < job.running.number
        and each.plan.nodes == job.layout.nodes
        and each.plan != job.running.plan
    )
    return max(fits, default=None)


def rate_of(turn: Turn, job: Job, kind: FaultClass, number: int, *, this: int = 0) -> Rate:
    """Of faults of a class with a version, within the last days that it was the newest, but for
    those of nodes that were left for them; `this`: it has one that is not noted yet. Deaths and
    what scripts said are one class here: code that is wrong does both."""
    at = next(k for k, each in enumerate(job.versions) if each.number == number)
    until_s = job.versions[at + 1].at_s if at + 1 < len(job.versions) else turn.now
    known_s = book.known_since_s(job.facts, turn.now, job.paid_s)
    since_s = max(until_s - book.HALF_LIFE_S, known_s)
    kinds = ENDS if kind in ENDS else {kind}
    faults = [each for each in job.facts if each.fault in kinds and each.about.version == number]
    named = [each for each in job.facts if each.about.node is not None]
    left = {each.about.node for each in named if each.held_for and each.done in LEAVES}
    stayed = [each for each in faults if each.done not in LEAVES and each.about.node not in left]
    lately = sum(each.at_s > since_s for each in stayed)
    ran_s = min(job.ran_s(job.versions[at], turn.now), max(0.0, until_s - since_s))
    return Rate(lately + this, ran_s)


def _ways(turn: Turn, job: Job, fault: Fault, cost_s: dict[Act, float]) -> Ways:
    """What could be done now."""
    acts = {Act.RESTART, Act.GIVE_UP, Act.EXAM, Act.EXAM_ALL, Act.WAIT}
    if _warm(turn, job, fault):
        acts.add(Act.MOVE_WARM)
    if move_on_suspicion.to_move(turn, job, fault) is not None:
        acts.add(Act.MOVE_COLD)
    if job.layout.nodes > 1 and (fault.node or fault.place) in job.places and saving.can_save(job):
        acts.add(Act.SWAP)
    if known_points.older(job) or not job.plan.task.store_url:  # then there is the beginning
        acts.add(Act.STEP_BACK)
    return Ways(acts=frozenset(acts), cost_s=cost_s)


def _warm(turn: Turn, job: Job, fault: Fault) -> bool:
    """Whether a warm standby can take the place; of what has to be tested, only for its tests."""
    if fault.weight is Weight.SUSPECT:
        return suspicion.may_begin(turn, job, fault.node)
    return bool(suspicion.takes_over(turn, job, fault.node))


# ---------------------------------------------------------------- whether it sees
#
# Many that fall silent at once, a driver that has only just come back, a clock that jumped, and
# ranks that most of them are paused, are more likely its own blindness, or somebody's doing, than
# faults of theirs: what was found then is waited for, said, and put down to nobody. Where the job
# goes on meanwhile its detectors take it back; where it does not, it is acted on in the end.

LOOK_AGAIN_S = 10.0
"""After which a fault is judged anew that the driver did not see well."""
LONGEST_S = 30.0
"""After which it is acted on all the same: longer than silence lasts before it counts by itself
(`Policy.reconnect_s`)."""


def hindered(turn: Turn, job: Job, fault: Fault) -> str:
    """Why it may be the driver that does not see; "" where it sees, or has waited for long."""
    waited_s = 0.0 if fault.waits_s is None else turn.now - fault.waits_s
    if fault.kind not in STANDSTILLS or waited_s >= LONGEST_S:
        return ""
    return fault.doubt or _just_back(turn) or _silent(turn, job)


def note_back(turn: Turn) -> bool:
    """The driver took over, or stood still until now. True where ranks ran meanwhile."""
    unseen = any(job.seated for job in turn.jobs.values())
    if unseen:
        turn.back_s = turn.now
    return unseen


def _just_back(turn: Turn) -> str:
    """Executors have as long to come back to it."""
    back_s = turn.policy.return_s if turn.back_s is None else turn.now - turn.back_s
    since = f"{back_s:.0f} s ago" if back_s >= 1 else "just now"
    return f"the driver came back {since}" if back_s < turn.policy.return_s else ""


def _silent(turn: Turn, job: Job) -> str:
    silent = [node for node in job.places if node and not turn.nodes[node].connected]
    if len(silent) <= eviction.cap(turn, turn.policy.silence_share):
        return ""
    return f"{len(silent)} of its {len(job.places)} nodes are silent at once"

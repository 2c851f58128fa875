"""Suspects are tested off the job: a warm standby takes the place, and training goes on meanwhile.

Called by the ladder, by trials and by whoever hears of the node. Pure. It is done where enough
healthy nodes are there to be tested beside: the job's own standbys, and free ones; and where the
last step can be saved, for what only the suspect's memory has is lost with it. Else, and while the
brake is on, the job's ranks stand still and its own nodes help: see `diagnosis`. Nobody uses a
suspect before its tests are over.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.thresholds import of_class as of_node_class
from holdfast.diagnostics.thresholds import thresholds
from holdfast.diagnostics.verdict import Verdict, judge
from holdfast.driver.core import exams
from holdfast.driver.core.attempt import saving
from holdfast.driver.core.effects import PutOnTrial
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job.maintenance import trains
from holdfast.driver.core.placing import eviction, pairs
from holdfast.driver.core.placing.allocation import leave, ready, rest
from holdfast.driver.core.placing.candidates import moved_off, unwanted
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Exam, Fault, Job, Purpose
from holdfast.driver.core.state.node import ExamSetup, Free, Lent, Node, Suspect, Trusted
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight

HELPERS = 2
"""So many stand beside the suspect in the ring: with one, nobody knows which of the two it was."""
TRIES = 2
"""Of exams of which nobody told anything; then the node is used again, after a rest."""


def may_begin(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the node's place can go to a warm standby now, and the node be tested off the job."""
    held_back = turn.brake.on or turn.policy.dry_run or not saving.can_save(job)
    if node is None or held_back or node not in job.places or node in job.leaving:
        return False
    if not turn.nodes[node].connected or not isinstance(turn.nodes[node].trust, Trusted):
        return False
    known = unwanted(turn, job, without=node)
    own = (turn.nodes[standby] for standby in job.standbys if standby not in known)
    warm = [each.name for each in own if _is_warm(turn, job, each)]
    needed = len(job.leaving) + 1  # what it has to leave besides takes one each
    beside = (each for each in _helpers(turn, job) if each.name not in (node, *warm[:needed]))
    return len(warm) >= needed and len(list(islice(beside, HELPERS))) == HELPERS


def _is_warm(turn: Turn, job: Job, node: Node) -> bool:
    return ready(node) and fits(Use.PLACE, job, node, turn.now)


def begin(turn: Turn, job: Job, node: str, fault: Fault) -> None:
    """The job leaves the node, its last step saved first; it is tested once it is given back."""
    setup = eviction.setup_of(job)
    turn.node(node, trust=Suspect(why=fault.summary, setup=setup, exam_s=turn.now))
    known = moved_off(turn, job)
    moved = {other: at_s for other, at_s in job.moved.items() if other in known}
    turn.job(job.name, leaving=(*job.leaving, node), moved={**moved, node: turn.now})
    turn.say(f"{node} is tested before anybody uses it again", job.name)


def _helpers(turn: Turn, job: Job | None) -> Iterator[Node]:
    """Healthy nodes that can be tested beside the job's without disturbing anybody: its own
    standbys, then free ones that it might be given."""
    if job is not None and trains(job):
        own = map(turn.nodes.__getitem__, job.standbys)
        yield from (node for node in own if _is_idle(turn, node))
    free = (node for node in turn.nodes.values() if isinstance(node.holding, Free))
    for node in free:
        if node.exam is None and node.connected and fits(Use.PLACE, job, node, turn.now):
            yield node


def _is_idle(turn: Turn, node: Node) -> bool:
    return node.exam is None and ready(node) and fits(Use.PARTNER, None, node, turn.now)


def _beside(turn: Turn, setup: ExamSetup) -> list[Node]:
    """Those who stand beside the suspect; fewer where so many are not there."""
    return list(islice(_helpers(turn, turn.jobs.get(setup.job)), HELPERS))


# ---------------------------------------------------------------- the exam


def hold(turn: Turn, node: Node, suspect: Suspect) -> None:
    """Have an executor on the suspect; once it is there, it is told what to run with whom."""
    number, setup = turn.sequence, suspect.setup
    if len(_beside(turn, setup)) < HELPERS:
        why = "nobody is there to be tested beside it"
        put_off(turn, node.name, why, tries=suspect.tries + 1)
        return
    exam = Exam(
        id=f"suspect.{number}",
        purpose=Purpose.SUSPICION,
        until_s=turn.now + turn.policy.connect_s,
        orders={node.name: ()},
        suspects=(node.name,),
        accused=(node.name,),
    )
    turn.node(node.name, holding=Lent(), told=replace(node.told, called=number))
    exams.begin(turn, exam)
    turn.order(PutOnTrial(job=setup.job, node=node.name, trial=number, spec=setup.spec))
    convene(turn, node.name)


def convene(turn: Turn, name: str) -> None:
    """The suspect's executor may be there now: choose who helps, and order the tests."""
    node = turn.nodes[name]
    exam = turn.exams.get(node.exam or "")
    waits = exam is not None and exam.purpose is Purpose.SUSPICION and not exam.orders[name]
    if exam is None or not (waits and node.connected and isinstance(node.trust, Suspect)):
        return
    setup = node.trust.setup
    helpers = _beside(turn, setup)
    if len(helpers) < HELPERS:  # they have gone since: it ends by its time
        return
    tests = orders(
        id=exam.id,
        suspects=[name],
        healthy=[each.name for each in helpers],
        addresses={each.name: each.address for each in (node, *helpers)},
        limit_s=setup.diagnose_s,
    )
    exams.begin(turn, replace(exam, orders=tests, until_s=turn.now + setup.diagnose_s))
    turn.say(f"{name} is tested beside {' and '.join(each.name for each in helpers)}")


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """The results are in, or will not come."""
    (name,) = exam.suspects
    node = turn.nodes[name]
    if not isinstance(node.trust, Suspect):
        exams.drop(turn, exam.id)
        return
    beside = any(other in exam.results for other in exam.orders if other != name)
    if name not in exam.results and not beside:
        put_off(turn, name, late or "it gave no result", tries=node.trust.tries + 1)
        return
    verdict = _verdict(turn, exam, node.trust)
    if name in verdict.undecided:
        put_off(turn, name, "its tests say nothing", tries=node.trust.tries + 1)
        return
    _end(turn, name)
    for two in verdict.apart:
        pairs.note(turn, *two)
    if name in verdict.bad:
        _convict(turn, name, verdict, node.trust.setup)
    else:
        _clear(turn, name, node.trust.setup)


def _verdict(turn: Turn, exam: Exam, suspect: Suspect) -> Verdict:
    """Of being slow only its node class convicts it, where any who helped is not of its job: what
    such a one reaches says nothing of what this has to."""
    setup = suspect.setup
    found = [result for results in exam.results.values() for result in results]
    own = all(turn.nodes[each].job == setup.job for each in exam.orders if each != exam.suspects[0])
    least = thresholds(found, setup.node_class) if own else of_node_class(setup.node_class)
    return judge(exam.orders, found, least, accused=exam.accused)


def _convict(turn: Turn, node: str, verdict: Verdict, setup: ExamSetup) -> None:
    part = verdict.bad[node]
    fault = Fault(
        kind=Kind.DIAGNOSTIC_FAILED,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=node,
        summary=f"the {part} of {node} failed its tests",
        evidence=tuple(Evidence(source="diagnosis", text=line) for line in verdict.evidence),
    )
    incident = incidents.open_or_join(turn, None, fault)
    turn.say(fault.summary, setup.job)
    why = f"its {part} failed the tests"
    turn.node(node, trust=Trusted())  # while the brake is on it only rests
    eviction.evict(turn, node, incident.id, why, setup=setup)
    if not incident.waiting and not incident.outage:
        incidents.close(turn, incident.id, "no job was using the node")


def _clear(turn: Turn, name: str, setup: ExamSetup) -> None:
    """Tests that find nothing are no cure: of a node that faults come from, they are counted."""
    record = turn.nodes[name].record
    since = turn.now - turn.policy.strike_window_s
    lately = tuple(at_s for at_s in record.acquitted if at_s > since)
    if record.strikes:
        record = replace(record, acquitted=(*lately, turn.now))
    turn.node(name, trust=Trusted(), record=record)
    turn.say(f"the tests of {name} find nothing against it: it is used again", setup.job)


def put_off(turn: Turn, node: str, why: str, *, tries: int | None = None) -> None:
    """It could not be tested, which says nothing about it. `tries`: of exams that were ordered."""
    _end(turn, node)
    suspect = turn.nodes[node].trust
    if not isinstance(suspect, Suspect):
        return
    tries = suspect.tries if tries is None else tries
    if tries < TRIES:
        later = replace(suspect, tries=tries, exam_s=turn.now + turn.policy.rest_s)
        turn.node(node, trust=later)
        turn.say(f"{node} could not be tested ({why}); that is tried again")
        return
    turn.node(node, trust=Trusted())
    rest(turn, node, f"it could not be tested: {why}")
    turn.say(f"{node} could not be tested ({why}): it is used again after a while")


def _end(turn: Turn, node: str) -> None:
    """Give its executor back, where it is being tested; who helped goes on as before."""
    if isinstance(turn.nodes[node].holding, Lent):
        exams.drop(turn, turn.nodes[node].exam)
        leave(turn, node)

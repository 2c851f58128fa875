"""Suspects are tested off the job: a warm standby takes the place, and training goes on meanwhile.

Called by the ladder, by trials and by whoever hears of the node. Pure. It is done where enough
healthy nodes are there to be tested beside: free ones, and standbys of whatever job; and where the
last step can be saved, for what only the suspect's memory has is lost with it. Else, and while the
brake is on, the job's ranks stand still and its own nodes help: see `diagnosis`. Nobody uses a
suspect before its tests are over.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from holdfast.diagnostics.plan import alone, orders
from holdfast.diagnostics.thresholds import thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.driver.core import eviction, exams, incidents, pairs, saving
from holdfast.driver.core.allocation import leave, ready, rest
from holdfast.driver.core.candidates import unwanted
from holdfast.driver.core.effects import PutOnTrial
from holdfast.driver.core.fit import Use, fits
from holdfast.driver.core.model import Exam, Fault, Job, Purpose
from holdfast.driver.core.moves import trains
from holdfast.driver.core.node import ExamSetup, Lent, Node, Suspect, Trusted
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight

HELPERS = 2
"""So many stand beside the suspect in the ring: with one, nobody knows which of the two it was."""
TRIES = 2
"""Of exams that could not be held; then the node is used again, after a rest."""


def may_begin(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the node's place can go to a warm standby now, and the node be tested off the job."""
    held_back = turn.brake.on or turn.policy.dry_run or not saving.can_save(job)
    if node is None or held_back or node not in job.places or node in job.leaving:
        return False
    if not turn.nodes[node].connected or not isinstance(turn.nodes[node].trust, Trusted):
        return False
    known = unwanted(turn, job, without=node)
    own = (turn.nodes[standby] for standby in job.standbys if standby not in known)
    warm = next((each.name for each in own if _is_warm(turn, job, each)), "")
    beside = (each for each in _helpers(turn) if each.name not in (node, warm))
    return bool(warm) and len(list(islice(beside, HELPERS))) == HELPERS


def _is_warm(turn: Turn, job: Job, node: Node) -> bool:
    return ready(node) and fits(Use.PLACE, job, node, turn.now)


def begin(turn: Turn, job: Job, node: str, fault: Fault) -> None:
    """The job leaves the node, its last step saved first; it is tested once it is given back."""
    setup = eviction.setup_of(job)
    turn.node(node, trust=Suspect(why=fault.summary, setup=setup, exam_s=turn.now))
    turn.job(job.name, leaving=(*job.leaving, node))
    turn.say(f"{node} is tested before anybody uses it again", job.name)


def _helpers(turn: Turn) -> Iterator[Node]:
    """Healthy nodes that can be tested beside another without disturbing anybody."""
    for job in turn.jobs.values():
        if trains(job):
            yield from (n for n in map(turn.nodes.__getitem__, job.standbys) if _is_idle(turn, n))
    for node in turn.nodes.values():
        if node.exam is None and fits(Use.PLACE, None, node, turn.now) and node.connected:
            yield node


def _is_idle(turn: Turn, node: Node) -> bool:
    return node.exam is None and ready(node) and fits(Use.PARTNER, None, node, turn.now)


# ---------------------------------------------------------------- the exam


def hold(turn: Turn, node: Node, suspect: Suspect) -> None:
    """Have an executor on the suspect; once it is there, it is told what to run with whom."""
    number, setup = turn.sequence, suspect.setup
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
    helpers = [each.name for each in islice(_helpers(turn), HELPERS)]
    limit_s = node.trust.setup.diagnose_s
    tests = {name: alone(id=exam.id, node=name, limit_s=limit_s)}
    if len(helpers) == HELPERS:
        addresses = {each: turn.nodes[each].address for each in (name, *helpers)}
        tests = orders(
            id=exam.id, suspects=[name], healthy=helpers, addresses=addresses, limit_s=limit_s
        )
    exams.begin(turn, replace(exam, orders=tests, until_s=turn.now + limit_s))
    beside = f" beside {' and '.join(helpers)}" if len(tests) > 1 else " alone"
    turn.say(f"{name} is tested{beside}")


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """The results are in, or will not come."""
    (name,) = exam.suspects
    node = turn.nodes[name]
    if not isinstance(node.trust, Suspect):
        exams.drop(turn, exam.id)
        return
    if name not in exam.results:
        put_off(turn, name, late or "it gave no result")
        return
    verdict = _verdict(exam, node.trust)
    _end(turn, name)
    for two in verdict.apart:
        pairs.note(turn, *two)
    if name in verdict.bad:
        _convict(turn, name, verdict, node.trust.setup)
    else:
        _clear(turn, name)


def _verdict(exam: Exam, suspect: Suspect) -> Verdict:
    (name,) = exam.suspects
    found = [result for results in exam.results.values() for result in results]
    least_gflops = suspect.setup.compute_gflops
    if len(exam.orders) == 1:
        return judge_alone(name, exam.orders[name], found, compute_gflops=least_gflops)
    least = thresholds(found, compute_gflops=least_gflops)
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
    turn.say(fault.summary)
    why = f"its {part} failed the tests"
    eviction.evict(turn, node, incident.id, why, setup=setup)
    if not incident.waiting and not incident.outage:
        incidents.close(turn, incident.id, "no job was using the node")


def _clear(turn: Turn, name: str) -> None:
    """Tests that find nothing are no cure: of a node that faults come from, they are counted."""
    record = turn.nodes[name].record
    since = turn.now - turn.policy.strike_window_s
    lately = tuple(at_s for at_s in record.acquitted if at_s > since)
    if record.strikes:
        record = replace(record, acquitted=(*lately, turn.now))
    turn.node(name, trust=Trusted(), record=record)
    turn.say(f"the tests of {name} find nothing against it: it is used again")


def put_off(turn: Turn, node: str, why: str) -> None:
    """It could not be tested, which says nothing about it."""
    _end(turn, node)
    suspect = turn.nodes[node].trust
    if not isinstance(suspect, Suspect):
        return
    if suspect.tries + 1 < TRIES:
        later = replace(suspect, tries=suspect.tries + 1, exam_s=turn.now + turn.policy.rest_s)
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

"""Testing suspects and their neighbours while the job is quiet, and evicting whom the tests name.

Called by `advance`, and by `exam_callers` once the exam is over. Pure. A job of two borrows a
healthy node that nobody has: between two nobody knows which of them it was.
"""

from collections.abc import Mapping

from holdfast.diagnostics.verdict import Verdict
from holdfast.driver.core import exams
from holdfast.driver.core.evidence import book, signs
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job import candidates, eviction, move_on_suspicion
from holdfast.driver.core.state.fact import About, Bearing
from holdfast.driver.core.state.model import Exam, Job, Purpose
from holdfast.driver.core.testing import afterwards, rounds, suspicion
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind


def begin(turn: Turn, name: str) -> None:
    """Order the tests. Suspects that are not there to be tested are left to their silence."""
    job = turn.jobs[name]
    there = rounds.own(turn, job)
    suspects = [node for node in job.suspects if node in there]
    if not suspects:
        turn.job(name, suspects=())
        return
    lent = _borrowed(turn, job, there)
    helpers = [*(node for node in there if node not in suspects), *lent]
    setup, accused = eviction.setup_of(job), _accused(turn, job, suspects)
    exam = rounds.order(turn, Purpose.DIAGNOSIS, suspects, helpers, setup, accused=accused)
    turn.say(f"{name} tests {', '.join(exam.orders)} (suspect: {', '.join(suspects)})", name)
    if lent:
        turn.say(f"{', '.join(lent)} only helps: of two nobody would know which of them it was")


def _borrowed(turn: Turn, job: Job, there: list[str]) -> list[str]:
    """Who makes three of two. Of one alone it is known which it is; and whether it is the image of
    its job no other node can tell."""
    lack = 1 + rounds.HELPERS - len(there) if len(there) > 1 else 0
    return rounds.others(rounds.nobodys(turn, job), most=max(0, lack))


def _accused(turn: Turn, job: Job, suspects: list[str]) -> list[str]:
    """Whom a fault named. Where everyone is tested, those that were the root of one lately."""
    if len(job.suspects) < len(job.nodes):
        return suspects
    since = turn.now - turn.policy.blame_window_s
    return [node for node in suspects if book.blamed(turn.nodes[node].record.facts, since)]


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """Judge what is there, evict whom it names, and let the job go on."""
    job = turn.jobs.get(exam.job or "")
    exams.drop(turn, exam.id)
    if job is None or job.exam != exam.id:
        return
    if late:
        turn.say(f"the tests of {job.name} are out of time", job.name)
    verdict = rounds.verdict(turn, exam, eviction.setup_of(job))
    left = tuple(node for node in job.suspects if node not in exam.orders)
    turn.job(job.name, exam=None, suspects=left)
    _note(turn, job, verdict)
    bad = {node: part for node, part in verdict.bad.items() if node in job.members}
    if bad and job.incident is not None:
        _name(turn, job.incident, bad)
        for node, part in bad.items():
            why = f"its {part} failed the tests"
            eviction.evict(turn, node, job.incident, why, node_class=verdict.least)
    _acquit(turn, exam, verdict)
    for two in verdict.apart:
        _part(turn, job.name, two)
    for node in rounds.once_more(turn, turn.jobs[job.name], exam, verdict):
        suspicion.doubt(turn, job.name, node, verdict.again[node], rounds.met(exam, [node]))
    if not (bad or any(node in job.members for node in verdict.again)):
        turn.say(f"tests of {', '.join(exam.orders)} find no fault with any node", job.name)


def _part(turn: Turn, name: str, two: tuple[str, str]) -> None:
    """Nothing is wrong with either of the two, but they are not seated together."""
    job = turn.jobs[name]
    about = About(job=name, version=job.running.number)
    candidates.note_pair(turn, two, "tests", Bearing.CONVICTS, about)
    turn.say(f"{' and '.join(two)} could not reach each other, and neither is convicted", name)
    node = move_on_suspicion.one_of(turn, job, two) if set(two) <= set(job.places) else None
    if node is not None:
        turn.say(f"try its place on another node than {node}", name)
        move_on_suspicion.move(turn, name, node)


def _acquit(turn: Turn, exam: Exam, verdict: Verdict) -> None:
    for name in exam.suspects:
        if not (turn.nodes[name].quarantined or name in verdict.bad or name in verdict.again):
            afterwards.acquit(turn, name)


def _name(turn: Turn, number: int, bad: Mapping[str, str]) -> None:
    """Let the incident name who was convicted; where it does already, only whose fault it is."""
    incident = turn.incidents[number]
    if incident.node in bad:
        turn.put_incident(incidents.shown(incident, signs.of_kind(Kind.DIAGNOSTIC_FAILED)))
        return
    node, part = next(iter(bad.items()))
    fault = afterwards.diagnosed(node, f"the {part} of {node} failed its tests")
    turn.put_incident(incidents.rooted(incident, fault))


def _note(turn: Turn, job: Job, verdict: Verdict) -> None:
    if job.incident is None:
        return
    old = turn.incidents[job.incident]
    new = tuple(Evidence(source="diagnosis", text=line) for line in verdict.evidence)
    evidence = (*old.evidence, *new)[: incidents.KEPT_EVIDENCE]
    turn.incident(old.id, diagnosed_s=turn.now, evidence=evidence)

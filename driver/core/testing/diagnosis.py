"""Testing suspects and their neighbours while the job is quiet, and evicting whom the tests name.

Called by `advance`, and by `exam_callers` once the exam is over. Pure: which tests to run and what
results mean is in `holdfast.diagnostics`, pure as well.
"""

from collections.abc import Mapping

from holdfast.diagnostics.plan import partners
from holdfast.diagnostics.thresholds import Thresholds, thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.driver.core import exams
from holdfast.driver.core.attempt.quiet import is_quiet
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.placing import eviction, move_on_suspicion, pairs
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Exam, Fault, Job, Purpose
from holdfast.driver.core.testing import afterwards, beside
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight


def begin(turn: Turn, name: str) -> None:
    """Order the tests. Suspects that are not there to be tested are left to their silence."""
    job = turn.jobs[name]
    there = [node for node in job.members if _takes_part(turn, job, node)]
    suspects = [node for node in job.suspects if node in there]
    if not suspects:
        turn.job(name, suspects=())
        return
    _order(turn, job, suspects, there, accused=_accused(turn, job, suspects))


def _accused(turn: Turn, job: Job, suspects: list[str]) -> list[str]:
    """Whom a fault named. Where everyone is tested, those that were the root of one lately."""
    if len(job.suspects) < len(job.nodes):
        return suspects
    since = turn.now - turn.policy.blame_window_s
    return [node for node in suspects if book.blamed(turn.nodes[node].record.facts, since)]


def _order(
    turn: Turn,
    job: Job,
    suspects: list[str],
    there: list[str],
    *,
    accused: list[str],
    second: bool = False,
) -> None:
    """Have the suspects tested beside those that are there and helped least so far."""
    number, limit_s = f"{job.incident or 0}.{turn.sequence}", job.plan.diagnose_s
    if number in turn.exams:  # another job's, of the same incident
        number = f"{number}.{job.name}"
    healthy = [node for node in there if node not in suspects]
    tests = beside.tests(turn, number, suspects, healthy, limit_s)
    exam = Exam(
        id=number,
        purpose=Purpose.DIAGNOSIS,
        until_s=turn.now + limit_s,
        orders=tests,
        suspects=tuple(suspects),
        accused=tuple(accused),
        second=second,
        job=job.name,
    )
    exams.begin(turn, exam)
    turn.job(job.name, exam=number)
    turn.say(f"{job.name} tests {', '.join(tests)} (suspect: {', '.join(suspects)})", job.name)


def _takes_part(turn: Turn, job: Job, node: str) -> bool:
    known = turn.nodes[node]
    return is_quiet(known, job) and fits(Use.PARTNER, job, known, turn.now)


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """Judge what is there, evict whom it names, and let the job go on."""
    job = turn.jobs.get(exam.job or "")
    exams.drop(turn, exam.id)
    if job is None or job.exam != exam.id:
        return
    if late:
        turn.say(f"the tests of {job.name} are out of time", job.name)
    least, verdict = _verdict(job, exam)
    left = tuple(node for node in job.suspects if node not in exam.orders)
    turn.job(job.name, exam=None, suspects=left)
    _note(turn, job, verdict)
    bad = {node: part for node, part in verdict.bad.items() if node in job.members}
    if bad and job.incident is not None:
        _name(turn, job.incident, bad)
        for node, part in bad.items():
            why = f"its {part} failed the tests"
            eviction.evict(turn, node, job.incident, why, node_class=least.alone())
    _acquit(turn, exam, verdict)
    for two in verdict.apart:
        _part(turn, job.name, two)
    if verdict.again and not exam.second:
        _examine_again(turn, job.name, exam, verdict)
    elif not bad:
        turn.say(f"tests of {', '.join(exam.orders)} find no fault with any node", job.name)


def _examine_again(turn: Turn, name: str, exam: Exam, verdict: Verdict) -> None:
    """Who failed, and whom nobody had accused, is tested once more, beside others: of many healthy
    nodes some fail once."""
    job = turn.jobs[name]
    there = [node for node in job.members if _takes_part(turn, job, node)]
    failed = [node for node in verdict.again if node in there]
    good = [node for node in there if node not in {*failed, *verdict.undecided}]
    if failed:
        helpers = partners(failed, good, before=exam.orders)
        turn.say(f"{', '.join(failed)} failed, and nothing but that speaks against it", name)
        _order(turn, job, failed, [*failed, *helpers], accused=failed, second=True)


def _part(turn: Turn, name: str, two: tuple[str, str]) -> None:
    """Nothing is wrong with either of the two, but they are not seated together."""
    pairs.note(turn, *two)
    turn.say(f"{' and '.join(two)} could not reach each other, and neither is convicted", name)
    job = turn.jobs[name]
    node = move_on_suspicion.one_of(turn, job, two) if set(two) <= set(job.places) else None
    if node is not None:
        turn.say(f"try its place on another node than {node}", name)
        move_on_suspicion.move(turn, name, node)


def _acquit(turn: Turn, exam: Exam, verdict: Verdict) -> None:
    for name in exam.suspects:
        if not (turn.nodes[name].quarantined or name in verdict.bad or name in verdict.again):
            afterwards.acquit(turn, name)


def _verdict(job: Job, exam: Exam) -> tuple[Thresholds, Verdict]:
    found = [result for results in exam.results.values() for result in results]
    least = thresholds(found, job.plan.node_class)
    if exam.second and len(exam.orders) == 1:  # nobody was left to help
        (alone,) = exam.orders
        return least, judge_alone(alone, exam.orders[alone], found, job.plan.node_class)
    return least, judge(exam.orders, found, least, accused=exam.accused)


def _name(turn: Turn, number: int, bad: Mapping[str, str]) -> None:
    """Let the incident name who was convicted; where it does already, only whose fault it is."""
    incident = turn.incidents[number]
    if incident.node in bad:
        turn.incident(number, blame=Blame.INFRASTRUCTURE)
        return
    node, part = next(iter(bad.items()))
    fault = Fault(
        kind=Kind.DIAGNOSTIC_FAILED,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=node,
        summary=f"the {part} of {node} failed its tests",
    )
    turn.put_incident(incidents.rooted(incident, fault))


def _note(turn: Turn, job: Job, verdict: Verdict) -> None:
    if job.incident is None:
        return
    old = turn.incidents[job.incident]
    new = tuple(Evidence(source="diagnosis", text=line) for line in verdict.evidence)
    evidence = (*old.evidence, *new)[: incidents.KEPT_EVIDENCE]
    turn.incident(old.id, diagnosed_s=turn.now, evidence=evidence)

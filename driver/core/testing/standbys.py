"""Standbys are tested when they come: each once, alone, while its job trains on.

Called by `decide` and by ticks. Pure. Nobody had accused a standby that fails, so it is tested a
second time, beside other healthy nodes; where there are none it is a suspect. One that fails again
is evicted, and the next node is tested in its turn; one of which nothing could be measured stands
by. A place that is empty does not wait for a test, and neither does a recovery: it ends those that
are under way. Must not touch training: no epoch, no phase, no restart.
"""

from msgspec.structs import replace

from holdfast.diagnostics.verdict import Verdict
from holdfast.driver.core import exams
from holdfast.driver.core.job.eviction import setup_of
from holdfast.driver.core.job.maintenance import trains
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Exam, Fault, Job, Purpose
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.testing import afterwards, rounds, suspicion
from holdfast.driver.core.turn import Turn


def keep(turn: Turn) -> None:
    """Begin the tests that are due, and end those whose job does not train any more."""
    for each in turn.each_job(turn.jobs):
        job = turn.jobs[each]
        training = trains(job)
        for name in job.standbys:
            node = turn.nodes[name]
            if not training:  # it is tested once its job trains again
                exams.leave(turn, name, but=Purpose.DIAGNOSIS)
            elif _is_due(turn, job, node):
                rounds.order(turn, Purpose.STANDBY, [name], [], setup_of(job))
                turn.say(f"standby {name} tests itself")


def _is_due(turn: Turn, job: Job, node: Node) -> bool:
    policy = turn.policy
    tests = policy.standby_test_s > 0 and job.failed_standbys < policy.standby_failures
    return tests and fits(Use.SELF_TEST, job, node, turn.now)


def conclude(turn: Turn, exam: Exam, late: str = "") -> Fault | None:
    """The results of a standby's self-test are in, or will not come; what is to be done about one
    that failed."""
    (name,) = exam.suspects
    job = turn.jobs.get(turn.nodes[name].job or "")
    exams.drop(turn, exam.id)
    if job is None:
        return None
    verdict = rounds.verdict(turn, exam, setup_of(job))
    if not exam.results or name in verdict.undecided:
        _note(turn, name, tested=False)  # nothing could be measured, which is no proof against it
        why = late or verdict.evidence[-1]
        turn.say(f"standby {name} could not be tested ({why}) and stands by untested")
    elif name in verdict.bad:
        return _fail(turn, job, name, verdict)
    elif name in verdict.again:
        for node in rounds.once_more(turn, job, exam, verdict):
            _count(turn, job)
            suspicion.doubt(turn, job.name, node, verdict.again[node])
    else:
        _pass(turn, job, name)
    return None


def _pass(turn: Turn, job: Job, node: str) -> None:
    _note(turn, node, tested=True)
    if job.failed_standbys:
        turn.job(job.name, failed_standbys=0)
    turn.say(f"standby {node} passed its self-test")


def _note(turn: Turn, node: str, *, tested: bool) -> None:
    held = turn.nodes[node].held
    if held is not None:
        turn.set_holding(node, replace(held, tested=tested))


def _fail(turn: Turn, job: Job, node: str, verdict: Verdict) -> Fault:
    _count(turn, job)
    summary = f"the {verdict.bad[node]} of {node} failed its self-test"
    return afterwards.diagnosed(node, summary, verdict.evidence)


def _count(turn: Turn, job: Job) -> None:
    failed = job.failed_standbys + 1
    turn.job(job.name, failed_standbys=failed)
    if failed == turn.policy.standby_failures:
        turn.say(
            f"{failed} standbys of {job.name} failed one after another: more likely the test than "
            "the nodes, so its standbys are tested no more"
        )

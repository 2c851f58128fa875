"""Rounds of tests: who is tested beside whom, what that says, and who is tested once more.

Asked by all who want to know of nodes, and say only why and what follows: `diagnosis`, `standbys`,
`off_the_job`. Pure. Who failed though nothing else speaks against it is convicted by a second
failure with another partner, and by nothing else. Where nobody else is there it is a suspect.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from holdfast.diagnostics.plan import orders, partners
from holdfast.diagnostics.thresholds import thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.driver.core import exams
from holdfast.driver.core.job.eviction import setup_of
from holdfast.driver.core.job.maintenance import trains
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Exam, Job, Purpose
from holdfast.driver.core.state.node import ExamSetup
from holdfast.driver.core.turn import Turn

HELPERS = 2
"""So many stand beside a node in the circle: with one, nobody knows which of the two it was."""

# ---------------------------------------------------------------- who can help


def own(turn: Turn, job: Job) -> list[str]:
    """The job's nodes that can be tested: while it has ranks, those that stand by."""
    names = job.standbys if job.seated else job.members
    return [name for name in names if fits(Use.PARTNER, job, turn.nodes[name], turn.now)]


def nobodys(turn: Turn, job: Job | None) -> Iterator[str]:
    """Healthy nodes that no job has, and that this one might have. Who needs one takes it out of
    the tests."""
    free = (node for node in turn.nodes.values() if node.job is None)
    return (node.name for node in free if fits(Use.HELPER, job, node, turn.now))


def idle(turn: Turn, job: Job | None) -> Iterator[str]:
    """Whom tests beside the job disturb in nothing: its standbys while it trains, then nobody's."""
    if job is not None and trains(job):
        yield from own(turn, job)
    yield from nobodys(turn, job)


def others(names: Iterable[str], *, but: Iterable[str] = (), most: int = HELPERS) -> list[str]:
    """The first of them, but for these."""
    known = set(but)
    return list(islice((name for name in names if name not in known), most))


# ---------------------------------------------------------------- a round


def order(
    turn: Turn,
    purpose: Purpose,
    suspects: Sequence[str],
    helpers: Sequence[str],
    setup: ExamSetup,
    *,
    accused: Iterable[str] = (),
    second: bool = False,
    number: str = "",
    again: Sequence[tuple[str, str]] = (),
) -> Exam:
    """Have them tested: with nobody to help, alone. `number`: of the exam that waited for them.
    `again`: pairs that are tried once more."""
    number = number or new_id(turn, purpose, suspects[0])
    standby = purpose is Purpose.STANDBY
    wait_s = turn.policy.standby_test_s if standby else setup.diagnose_s
    tests = orders(
        id=number,
        suspects=suspects,
        healthy=helpers,
        addresses={name: turn.nodes[name].address for name in (*suspects, *helpers)},
        limit_s=min(wait_s, setup.diagnose_s),
        again=again,
        thorough=purpose is Purpose.ASKED,
    )
    exam = Exam(
        id=number,
        purpose=purpose,
        until_s=turn.now + wait_s,
        orders=tests,
        suspects=tuple(suspects),
        accused=tuple(accused),
        second=second,
        job=setup.job,
    )
    exams.begin(turn, exam)
    if purpose is Purpose.DIAGNOSIS:
        turn.job(setup.job, exam=number)
    return exam


def new_id(turn: Turn, purpose: Purpose, suspect: str) -> str:
    return f"{purpose}.{turn.sequence}.{suspect}"


def met(exam: Exam, nodes: Iterable[str]) -> set[str]:
    """With whom these were tested."""
    ran = (each for node in nodes for each in exam.orders.get(node, ()))
    return {name for each in ran for name in each.members}.difference(nodes)


# ---------------------------------------------------------------- what it says


def verdict(turn: Turn, exam: Exam, setup: ExamSetup) -> Verdict:
    """What the results say. A node that is not the job's may be of another class, and has another
    image: what it reaches is no measure, and whether it fails does not tell whether the test is
    wrong."""
    found = [result for results in exam.results.values() for result in results]
    if len(exam.orders) == 1 and exam.purpose is not Purpose.DIAGNOSIS:
        ((name, alone),) = exam.orders.items()
        evicted = exam.purpose is Purpose.REQUALIFICATION
        return judge_alone(name, alone, found, setup.node_class, accused=evicted)
    job = turn.jobs.get(setup.job)
    fellows = {name for name in exam.orders if job is not None and turn.has(job, name)}
    fellows.update(exam.suspects)
    least = thresholds((each for each in found if each.node in fellows), setup.node_class)
    return judge(exam.orders, found, least, accused=exam.accused, fellows=fellows)


# ---------------------------------------------------------------- once more


def anew(turn: Turn, setup: ExamSetup, node: str, met: Sequence[str]) -> list[str]:
    """Who helps to test a node that no job has, those last that were `met`."""
    job = turn.jobs.get(setup.job)
    healthy = others(idle(turn, job), most=HELPERS + len(met))
    return _beside(turn, job, [node], healthy, set(met))[:HELPERS]


def _beside(
    turn: Turn, job: Job | None, suspects: list[str], healthy: list[str], met: set[str]
) -> list[str]:
    """Who helps: of the healthy, first those that were not met, and where these are few others;
    nobody where there is nobody new."""
    new = len(set(healthy) - met)
    known = {*suspects, *healthy, *met}
    more = others(nobodys(turn, job), but=known, most=max(0, HELPERS - new))
    found = partners(suspects, [*healthy, *more], met)
    return [] if met.issuperset(found) else list(found)


def once_more(turn: Turn, job: Job, exam: Exam, found: Verdict) -> list[str]:
    """Test those of the job again that failed and that nobody had accused; or whom nobody new can
    be tested beside."""
    there = own(turn, job)
    failed = [name for name in found.again if name in there]
    if not failed or exam.second:
        return []
    good = [name for name in there if name not in {*failed, *found.undecided}]
    helpers = _beside(turn, job, failed, good, met(exam, failed))
    if not helpers:
        return failed
    order(turn, exam.purpose, failed, helpers, setup_of(job), accused=failed, second=True)
    names, whom = ", ".join(failed), ", ".join(helpers)
    turn.say(f"{names} failed, and nothing else speaks against it: tested again beside {whom}")
    return []

"""Who can be tested beside a node, and what the results say then. Pure."""

from collections.abc import Iterator, Mapping
from itertools import islice

from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.thresholds import of_class, thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.driver.core.job.maintenance import trains
from holdfast.driver.core.placing.allocation import ready
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Exam, Job, Purpose
from holdfast.driver.core.state.node import Free, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.messages import DiagnosticOrder

HELPERS = 2
"""So many stand beside the node in the circle: with one, nobody knows which of the two it was."""


def _idle(turn: Turn, job: Job | None) -> Iterator[Node]:
    """Healthy nodes that can be tested beside the job's without disturbing anybody: its own
    standbys, then free ones that it might be given."""
    if job is not None and trains(job):
        own = map(turn.nodes.__getitem__, job.standbys)
        yield from (node for node in own if _stands_by(turn, node))
    free = (node for node in turn.nodes.values() if isinstance(node.holding, Free))
    for node in free:
        if node.exam is None and node.connected and fits(Use.PLACE, job, node, turn.now):
            yield node


def _stands_by(turn: Turn, node: Node) -> bool:
    return node.exam is None and ready(node) and fits(Use.PARTNER, None, node, turn.now)


def some(turn: Turn, job: Job | None, *, but: tuple[str, ...] = ()) -> list[str]:
    """Those who stand beside the node; fewer where so many are not there."""
    names = (node.name for node in _idle(turn, job) if node.name not in but)
    return list(islice(names, HELPERS))


def enough(turn: Turn, job: Job | None) -> bool:
    """Whether so many are there, and as many for each suspect whose executor is waited for."""
    awaited = [exam for exam in turn.exams.values() if exam.purpose is Purpose.SUSPICION]
    wanted = HELPERS * (1 + sum(not exam.orders[exam.suspects[0]] for exam in awaited))
    return len(list(islice(_idle(turn, job), wanted))) == wanted


def tests(
    turn: Turn, number: str, suspects: list[str], helpers: list[str], limit_s: float
) -> dict[str, tuple[DiagnosticOrder, ...]]:
    """What each of them runs with whom; with nobody to help, alone."""
    addresses = {name: turn.nodes[name].address for name in (*suspects, *helpers)}
    return orders(
        id=number, suspects=suspects, healthy=helpers, addresses=addresses, limit_s=limit_s
    )


def judged(turn: Turn, exam: Exam, job: str, node_class: Mapping[str, float]) -> Verdict:
    """What the results say of the node in question. Of being slow only its node class convicts it,
    where any who helped is not of its job: what such a one reaches says nothing of what this has
    to."""
    (name,) = exam.suspects
    found = [result for results in exam.results.values() for result in results]
    if len(exam.orders) == 1:
        return judge_alone(name, exam.orders[name], found, node_class)
    own = all(turn.nodes[each].job == job for each in exam.orders if each != name)
    least = thresholds(found, node_class) if own else of_class(node_class)
    return judge(exam.orders, found, least, accused=exam.accused)

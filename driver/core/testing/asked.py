"""A person wants to know how nodes are: they are tested in stages, and nobody is evicted for it.

Called by `decide` for the request, and by `exam_callers` once a stage is over. Pure. What became of
it is kept for a while, for who asked. A node that a job needs meanwhile leaves the tests.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.diagnostics.following import following
from holdfast.diagnostics.stages import Stage, settled
from holdfast.driver.core import exams
from holdfast.driver.core.events import CalibrateRequested, DiagnoseEndRequested, DiagnoseRequested
from holdfast.driver.core.state.fit import Bar, Reason, Use, fit
from holdfast.driver.core.state.model import Asked, Exam, Purpose, State
from holdfast.driver.core.state.node import ExamSetup, Node
from holdfast.driver.core.testing import calibrating, rounds
from holdfast.driver.core.testing.unknown import unknown
from holdfast.driver.core.turn import Turn

LIMIT_S = 180.0
"""Of a stage: torch is loaded cold, by many nodes at once where they share a machine."""
ALL_LEFT = "each node in question left the tests: a job took it, or its executor started anew"
KEPT_S = 600.0
"""How long what came of it can be asked for."""


def against(state: State, node: Node, now: float) -> tuple[Reason, ...]:
    """Why the node cannot be tested now for a person."""
    return fit(Use.ASKED, state.jobs.get(node.job or ""), node, now)


def on_request(turn: Turn, event: DiagnoseRequested) -> None:
    """Test them, or all that can be; who cannot is told with its reason."""
    wanted = event.nodes or tuple(sorted(turn.nodes))
    state = turn.state()
    why = {name: against(state, turn.nodes[name], turn.now) for name in wanted}
    nodes = tuple(name for name in wanted if not why[name])
    if not nodes:
        return
    left_out = {name: str(reasons[0]) for name, reasons in why.items() if reasons}
    helpers = _helpers(turn, nodes) if event.nodes else []
    exam = rounds.order(turn, Purpose.ASKED, nodes, helpers, ExamSetup(job="", diagnose_s=LIMIT_S))
    known = calibrating.known(turn.figures)
    turn.put_exam(replace(exam, asked=Asked(turn.sequence, nodes, left_out, known)))
    turn.say(f"{event.who} wants {', '.join(nodes)} tested")


def _helpers(turn: Turn, nodes: tuple[str, ...]) -> list[str]:
    most = rounds.HELPERS * len(nodes) + 1
    idle = (name for name in rounds.nobodys(turn, None) if turn.nodes[name].exam is None)
    return rounds.others(idle, but=nodes, most=most)


def on_end(turn: Turn, event: DiagnoseEndRequested) -> None:
    """Nobody wants to know any more."""
    exam = found(turn.exams.values(), event.diagnosis)
    if exam is not None and exam.asked is not None and exam.asked.verdict is None:
        _end(turn, exam, exam.asked, f"{event.who} ended it")


def on_calibrate(turn: Turn, event: CalibrateRequested) -> None:
    """What its good nodes reached is what nodes have to reach from now on."""
    exam = found(turn.exams.values(), event.diagnosis)
    if exam is None or exam.asked is None:
        return
    told = calibrating.keep(turn, exam.asked)
    turn.say(f"nodes have to reach {told}, as {event.who} had measured")


def found(known: Iterable[Exam], number: int) -> Exam | None:
    """The exam that belongs to the request of this number."""
    return next((each for each in known if each.asked and each.asked.number == number), None)


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """A stage is over: the next one, or the verdict. One that is long over is forgotten."""
    asked = exam.asked
    if asked is None or asked.verdict is not None:
        exams.drop(turn, exam.id)
        return
    if all(_left(turn, exam, name) for name in exam.suspects):
        _end(turn, exam, asked, ALL_LEFT)
        return
    stages = (*asked.stages, _stage(turn, exam))
    verdict = settled(stages, asked.known)
    free = [name for name, node in turn.nodes.items() if _is_free(turn, exam, node)]
    then = following(stages, verdict, free, asked.known)
    exams.drop(turn, exam.id)
    if not then.tested or verdict.unsettled.isdisjoint(asked.nodes):  # of who helps nobody asked
        _end(turn, exam, replace(asked, stages=stages, verdict=verdict), late)
        return
    more = rounds.order(
        turn,
        Purpose.ASKED,
        then.tested,
        then.helpers,
        ExamSetup(job="", diagnose_s=LIMIT_S),
        again=then.again,
    )
    turn.put_exam(replace(more, asked=replace(asked, stages=stages)))
    turn.say(f"{', '.join(then.tested)} is tested again beside {', '.join(then.helpers)}")


def _is_free(turn: Turn, exam: Exam, node: Node) -> bool:
    """Whether the node can be tested in the next stage; that it is in this one does not count."""
    bars = against(turn.state(), node, turn.now)
    return all(each.bar is Bar.ASKED and node.exam == exam.id for each in bars)


def _stage(turn: Turn, exam: Exam) -> Stage:
    """What was told; of who left the tests meanwhile, and of a pair with it, it says nothing."""
    results = tuple(each for told in exam.results.values() for each in told)
    gone = {name for name in exam.orders if name not in exam.results and _left(turn, exam, name)}
    return Stage(exam.orders, results).without(gone)


def _left(turn: Turn, exam: Exam, name: str) -> bool:
    return name not in turn.nodes or turn.nodes[name].exam != exam.id


def _end(turn: Turn, exam: Exam, asked: Asked, why: str) -> None:
    """Keep what came of it."""
    exams.drop(turn, exam.id)
    verdict = asked.verdict or settled(asked.stages, asked.known)
    calibrating.learn(turn, replace(asked, verdict=verdict))
    ended, until_s = replace(asked, verdict=verdict, why=why), turn.now + KEPT_S
    turn.put_exam(replace(exam, orders={}, results={}, asked=ended, until_s=until_s))
    bad = ", ".join(f"the {part} of {node}" for node, part in verdict.bad.items())
    found = f"bad is {bad}" if bad else "nothing is bad"
    over = f"ended before they were over ({why})" if why else "are over"
    left = ", ".join(f"{node} ({reason})" for node, reason in unknown(ended).items())
    not_known = f"; not known of {left}" if left else ""
    turn.say(f"the tests of {', '.join(asked.nodes)} {over}: {found}{not_known}")

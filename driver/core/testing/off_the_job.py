"""Tests of a node that is out of its job: it gets an executor of its own, and nobody uses it.

Called by `exam_callers`, by ticks, and by whoever hears of the node. Pure. Its trust says why it is
out: it was evicted, has to prove that it is well, and is tested alone; or it is a suspect, against
whom all has to be proved, and healthy nodes are tested beside it. What follows is `afterwards`. No
job has it, so what befalls it here is no incident.
"""

import math
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.effects import HoldForExam
from holdfast.driver.core.placing import pairs
from holdfast.driver.core.placing.allocation import leave
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Brake, Exam, Purpose
from holdfast.driver.core.state.node import ExamSetup, Lent, Node, Suspect, Trusted
from holdfast.driver.core.testing import afterwards, beside
from holdfast.driver.core.turn import Turn

# ---------------------------------------------------------------- when


def following(nodes: Mapping[str, Node], exams: Mapping[str, Exam], brake: Brake) -> list[Node]:
    """Whose tests come next, of those that can be tested now: every suspect's, and those of the
    evicted one after another, none while the brake is on."""
    out = [node for node in nodes.values() if not isinstance(node.trust, Trusted)]
    can = sorted(filter(_can, out), key=lambda node: (due_s(node) or 0.0, node.name))
    suspects = [node for node in can if not (node.quarantined or _waits(node, exams))]
    busy = any(node.quarantined and isinstance(node.holding, Lent) for node in out)
    evicted = [node for node in can if node.quarantined and not (busy or brake.on)]
    return suspects + evicted[:1]


def _can(node: Node) -> bool:
    """What ends by itself does not count for it."""
    return due_s(node) is not None and fits(Use.EXAM, None, node, math.inf)


def _waits(node: Node, exams: Mapping[str, Exam]) -> bool:
    after = node.trust.after if isinstance(node.trust, Suspect) else ()
    return bool(after) and all(each in exams for each in after)


def due_s(node: Node) -> float | None:
    """When the node may be tested; None: not by itself, or it is being tested."""
    return None if isinstance(node.trust, Trusted) else node.trust.exam_s


def on_tick(turn: Turn) -> None:
    """Begin what is due; what cannot be held now gives way to the next."""
    while due := [node for node in _following(turn) if (due_s(node) or 0.0) <= turn.now]:
        for _ in turn.each_node((due[0].name,)):
            _hold(turn, due[0])


def _following(turn: Turn) -> list[Node]:
    return following(turn.nodes, turn.exams, turn.brake)


# ---------------------------------------------------------------- the exam


def _hold(turn: Turn, node: Node) -> None:
    """Have an executor on the node. What it runs alone it is told at once; beside whom it is tested
    once it is there."""
    setup, number = _setup(node), turn.sequence
    if node.quarantined:
        purpose, id_, limit_s = Purpose.REQUALIFICATION, f"trial.{number}", setup.diagnose_s
        tests = beside.tests(turn, id_, [node.name], [], limit_s)
        turn.say(f"{node.name} is tested, which says whether it is used again")
    elif beside.enough(turn, turn.jobs.get(setup.job)):
        purpose, id_, limit_s = Purpose.SUSPICION, f"suspect.{number}.{node.name}", 0.0
        tests = {node.name: ()}
    else:
        _wait_for_helpers(turn, node)
        return
    exam = Exam(
        id=id_,
        purpose=purpose,
        until_s=turn.now + turn.policy.connect_s + limit_s,
        orders=tests,
        suspects=(node.name,),
        accused=(node.name,),
    )
    turn.ask_for(node.name, Lent())
    exams.begin(turn, exam)
    turn.order(HoldForExam(job=setup.job, node=node.name, number=number, spec=setup.spec))
    connected(turn, node.name, new=False)


def _wait_for_helpers(turn: Turn, node: Node) -> None:
    others = [exam for exam in turn.exams.values() if exam.purpose is Purpose.SUSPICION]
    if not (others and isinstance(node.trust, Suspect)):
        put_off(turn, node.name, "nobody is there to be tested beside it", ordered=True)
        return
    turn.set_trust(node.name, replace(node.trust, after=tuple(exam.id for exam in others)))
    turn.say(f"{node.name} is tested after {others[0].suspects[0]}: there is nobody else to help")


def connected(turn: Turn, name: str, *, new: bool) -> None:
    """Its executor is there: choose who helps, and order the tests. A new one in the middle of them
    comes too late for what its partners have run."""
    node = turn.nodes[name]
    exam = turn.exams.get(node.exam or "")
    if exam is None or name not in exam.suspects or exam.purpose is not Purpose.SUSPICION:
        return
    if not exam.orders[name]:
        _convene(turn, node, exam)
    elif new:
        put_off(turn, name, "its executor started anew in the middle of them", ordered=True)


def _convene(turn: Turn, node: Node, exam: Exam) -> None:
    setup = _setup(node)
    helpers = beside.some(turn, turn.jobs.get(setup.job))
    if len(helpers) == beside.HELPERS and node.connected:  # else it ends by its time
        tests = beside.tests(turn, exam.id, [node.name], helpers, setup.diagnose_s)
        exams.begin(turn, replace(exam, orders=tests, until_s=turn.now + setup.diagnose_s))
        turn.say(f"{node.name} is tested beside {' and '.join(helpers)}")


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """The results are in, or will not come."""
    (name,) = exam.suspects
    node = turn.nodes[name]
    found = [result for results in exam.results.values() for result in results]
    if not late and all(result.ok is None for result in found):
        details = (result.detail for result in found if result.detail)
        put_off(turn, name, next(details, "no test could be run"), ordered=True)
        return
    setup = _setup(node)
    verdict = beside.judged(turn, exam, setup.job, setup.node_class)
    if not found:
        verdict = afterwards.doubtful(name, late)
    if name in verdict.undecided and not node.quarantined:
        put_off(turn, name, late or "its tests say nothing", ordered=True)
        return
    end(turn, name)
    for two in verdict.apart:
        pairs.note(turn, *two)
    if name in (*verdict.bad, *verdict.undecided):
        afterwards.failed(turn, name, verdict)
    else:
        afterwards.passed(turn, name)


# ---------------------------------------------------------------- what may come between


def put_off(turn: Turn, node: str, why: str, *, ordered: bool = False) -> None:
    """It could not be tested, which says nothing about it. `ordered`: though tests were."""
    end(turn, node)
    afterwards.put_off(turn, node, why, ordered=ordered)


def object_to(turn: Turn, node: str, why: str) -> None:
    """Something is against the node; where it is being tested it has not proved itself."""
    known = turn.nodes[node]
    if not isinstance(known.holding, Lent):
        return
    if not known.quarantined:
        put_off(turn, node, why)
        return
    end(turn, node)
    afterwards.failed(turn, node, afterwards.doubtful(node, why))


def make_way(turn: Turn, node: str) -> None:
    """A node that is to be free is tested once it need not be any more."""
    notice = turn.nodes[node].notice
    if notice is not None and isinstance(turn.nodes[node].holding, Lent):
        put_off(turn, node, f"it is to be free: {notice.why}")


def end(turn: Turn, node: str) -> None:
    """Give its executor back, where it is being tested; who helped goes on as before."""
    if isinstance(turn.nodes[node].holding, Lent):
        exams.drop(turn, turn.nodes[node].exam)
        leave(turn, node)


def _setup(node: Node) -> ExamSetup:
    setup = None if isinstance(node.trust, Trusted) else node.trust.setup
    assert setup is not None, "see `fit`"
    return setup

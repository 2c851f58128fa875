"""Tests of a node that is out of its job: it gets an executor of its own, and nobody uses it.

Called by `exam_callers`, by ticks, and by whoever hears of the node. Pure. Its trust says why it is
out: it was evicted, has to prove that it is well, and is tested alone; or it is a suspect, against
whom all has to be proved, and healthy nodes are tested beside it, unless its tests made it one and
nobody new is there. What follows is `afterwards`. No job has it, so what befalls it here is no
incident.
"""

import math
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.effects import HoldForExam
from holdfast.driver.core.job import candidates
from holdfast.driver.core.job.allocation import leave
from holdfast.driver.core.state.fact import About, Bearing
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Brake, Exam, Purpose
from holdfast.driver.core.state.node import ExamSetup, Lent, Node, Suspect, Trusted
from holdfast.driver.core.testing import afterwards, rounds
from holdfast.driver.core.turn import Turn

# ---------------------------------------------------------------- when


def following(nodes: Mapping[str, Node], exams: Mapping[str, Exam], brake: Brake) -> list[Node]:
    """Whose tests come next, of those that can be tested now: every suspect's, and those of the
    evicted one after another, none while the brake is on."""
    out = [node for node in nodes.values() if not isinstance(node.trust, Trusted)]
    if not out:  # as nearly always, and this is asked at each event
        return []
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
    """Have an executor on the node; it is told what to run, beside whom, once that is there."""
    setup = _setup(node)
    if not (node.quarantined or _met(node) is not None or _enough(turn, setup)):
        _wait_for_helpers(turn, node)
        return
    purpose = Purpose.REQUALIFICATION if node.quarantined else Purpose.SUSPICION
    exam = Exam(
        id=rounds.new_id(turn, purpose, node.name),
        purpose=purpose,
        until_s=turn.now + turn.policy.connect_s,
        orders={node.name: ()},
        suspects=(node.name,),
        job=setup.job,
    )
    turn.ask_for(node.name, Lent())
    exams.begin(turn, exam)
    number, spec = turn.sequence, setup.spec
    turn.order(HoldForExam(job=setup.job, node=node.name, number=number, spec=spec))
    if node.quarantined:
        turn.say(f"{node.name} is tested, which says whether it is used again")
    connected(turn, node.name, new=False)


def _met(node: Node) -> tuple[str, ...] | None:
    """Of a suspect that its tests made one, with whom; None: something else accuses it."""
    return node.trust.beside if isinstance(node.trust, Suspect) else None


def _enough(turn: Turn, setup: ExamSetup) -> bool:
    """Whether so many can help, and as many for each suspect whose executor is waited for."""
    waiting = [exam for exam in turn.exams.values() if exam.purpose is Purpose.SUSPICION]
    wanted = rounds.HELPERS * (1 + sum(not exam.orders[exam.suspects[0]] for exam in waiting))
    found = rounds.others(rounds.idle(turn, turn.jobs.get(setup.job)), most=wanted)
    return len(found) == wanted


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
    if exam is None or not (isinstance(node.holding, Lent) and node.connected):
        return
    if not exam.orders[name]:
        _convene(turn, node, exam)
    elif new:
        put_off(turn, name, "its executor started anew in the middle of them", ordered=True)


def _convene(turn: Turn, node: Node, exam: Exam) -> None:
    """Who was evicted is tested alone; so is a suspect that its tests made one, where it has to."""
    setup, met = _setup(node), _met(node)
    helpers = [] if node.quarantined else rounds.anew(turn, setup, node.name, met or ())
    if not node.quarantined and met is None and len(helpers) < rounds.HELPERS:
        return  # it ends by its time
    suspects, purpose = [node.name], exam.purpose
    rounds.order(turn, purpose, suspects, helpers, setup, accused=suspects, number=exam.id)
    if not node.quarantined:
        with_whom = f"beside {' and '.join(helpers)}" if helpers else "alone"
        turn.say(f"{node.name} is tested {with_whom}")


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
    verdict = rounds.verdict(turn, exam, setup)
    if not found:
        verdict = afterwards.doubtful(name, late)
    if name in verdict.undecided and not node.quarantined:
        put_off(turn, name, late or "its tests say nothing", ordered=True)
        return
    end(turn, name)
    for two in verdict.apart:
        candidates.note_pair(turn, two, "tests", Bearing.CONVICTS, About(job=setup.job))
    if name in verdict.again:
        afterwards.stays(turn, name, f"its {verdict.again[name]} failed again, tested alone")
    elif name in (*verdict.bad, *verdict.undecided):
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

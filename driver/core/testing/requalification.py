"""Trials: an evicted node is tested, alone and without a job, and used again where it passes.

Called by `decide`, by ticks, by requests and by whoever hears of the node. Pure. One node at a time
is on trial, and no trial begins while the brake is on. What a person evicted a person restores. A
trial is no incident: no job has the node.
"""

import math
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.diagnostics.plan import alone
from holdfast.diagnostics.verdict import judge_alone
from holdfast.driver.core import exams
from holdfast.driver.core.effects import PutOnTrial
from holdfast.driver.core.placing import eviction
from holdfast.driver.core.placing.allocation import leave
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Brake, Exam, Purpose
from holdfast.driver.core.state.node import Lent, Node, Suspect, Trusted
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.turn import Turn


def following(nodes: Mapping[str, Node], brake: Brake) -> Node | None:
    """Which node is tested next, of those that can be now; None while one is. While the brake is
    on suspects alone are."""
    out = [node for node in nodes.values() if not isinstance(node.trust, Trusted)]
    if any(isinstance(node.holding, Lent) for node in out):
        return None
    may = [node for node in out if not (brake.on and node.quarantined)]
    can = [node for node in may if due_s(node) is not None and _can(node)]
    return min(can, key=_turn_of, default=None)


def _turn_of(node: Node) -> tuple[bool, float, str]:
    """Suspects come first: nobody uses them meanwhile, and nothing may be wrong with them."""
    return node.quarantined, due_s(node) or 0.0, node.name


def _can(node: Node) -> bool:
    return fits(Use.EXAM, None, node, math.inf)  # what ends by itself does not count for it


def due_s(node: Node) -> float | None:
    """When the node may be tested; None: not by itself, or it is being tested."""
    return None if isinstance(node.trust, Trusted) else node.trust.exam_s


def on_tick(turn: Turn) -> None:
    """Begin the one that is due; where that cannot be tested now, the next."""
    while (due := following(turn.nodes, turn.brake)) is not None and _is_due(turn, due):
        for _ in turn.each_node((due.name,)):
            if isinstance(due.trust, Suspect):
                suspicion.hold(turn, due, due.trust)
            else:
                _begin(turn, due)


def _is_due(turn: Turn, node: Node) -> bool:
    return (due_s(node) or 0.0) <= turn.now


def _begin(turn: Turn, node: Node) -> None:
    setup = node.quarantine.setup if node.quarantine else None
    assert setup is not None, "see `fit`"
    number = turn.sequence
    id_ = f"trial.{number}"  # those of jobs begin with the number of their incident
    tests = {node.name: alone(id=id_, node=node.name, limit_s=setup.diagnose_s)}
    exam = Exam(
        id=id_,
        purpose=Purpose.REQUALIFICATION,
        until_s=turn.now + turn.policy.connect_s + setup.diagnose_s,
        orders=tests,
        suspects=(node.name,),
    )
    turn.node(node.name, holding=Lent(), told=replace(node.told, called=number))
    exams.begin(turn, exam)
    turn.order(PutOnTrial(job=setup.job, node=node.name, trial=number, spec=setup.spec))
    turn.say(f"{node.name} is put on trial: its tests say whether it is used again")


def conclude(turn: Turn, exam: Exam, late: str = "") -> None:
    """The results of the node's tests are in, or will not come."""
    (name,) = exam.suspects
    node = turn.nodes[name]
    told = exam.results.get(name, ())
    if not late and all(result.ok is None for result in told):
        details = (result.detail for result in told if result.detail)
        put_off(turn, name, next(details, "no test could be run"))
        return
    why = late or _failed(node, exam)
    if why:
        _fail(turn, name, why)
        return
    end(turn, name)
    eviction.trust(turn, name, asked=False)
    turn.say(f"{name} passed its tests and is trusted again")


def _failed(node: Node, exam: Exam) -> str:
    """Why the tests do not clear the node; "" where they do."""
    setup = node.quarantine.setup if node.quarantine else None
    least = setup.node_class if setup else {}
    orders, results = exam.orders[node.name], exam.results[node.name]
    verdict = judge_alone(node.name, orders, results, least)
    return verdict.evidence[0] if verdict.bad or verdict.undecided else ""


def put_off(turn: Turn, node: str, why: str) -> None:
    """It could not be tested, which says nothing about it: it waits as long as before."""
    if isinstance(turn.nodes[node].trust, Suspect):
        suspicion.put_off(turn, node, why)
        return
    end(turn, node)
    wait_s = turn.nodes[node].record.exam_wait_s
    eviction.put_exam(turn, node, wait_s)
    turn.say(f"{node} could not be put on trial ({why}); {_again(wait_s)}")


def object_to(turn: Turn, node: str, why: str) -> None:
    """Something is against the node; where it is on trial it has not passed it."""
    if not isinstance(turn.nodes[node].holding, Lent):
        return
    if isinstance(turn.nodes[node].trust, Suspect):
        suspicion.put_off(turn, node, why)
    else:
        _fail(turn, node, why)


def _fail(turn: Turn, node: str, why: str) -> None:
    end(turn, node)
    eviction.wait_for_exam(turn, node)
    wait_s = turn.nodes[node].record.exam_wait_s
    turn.say(f"{node} did not pass its trial ({why}) and stays out; {_again(wait_s)}")


def _again(wait_s: float) -> str:
    return f"the next trial is in {wait_s:g} s"


def end(turn: Turn, node: str) -> None:
    """Give its executor back, where it is on trial, whatever came of it."""
    if isinstance(turn.nodes[node].holding, Lent):
        exams.drop(turn, turn.nodes[node].exam)
        leave(turn, node)

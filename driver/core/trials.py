"""Trials: an evicted node is tested, alone and without a job, and used again where it passes.

Called by `decide`, by ticks, by requests and by whoever hears of the node. Pure. One node at a time
is on trial, and no trial begins while the brake is on. What a person evicted a person restores. A
trial is no incident: no job has the node.
"""

from collections.abc import Mapping

from holdfast.diagnostics.plan import alone
from holdfast.diagnostics.verdict import judge_alone
from holdfast.driver.core import eviction
from holdfast.driver.core.allocation import leave
from holdfast.driver.core.effects import PutOnTrial
from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.model import Brake, Kit, Node, Trial
from holdfast.driver.core.turn import Turn
from holdfast.protocol.messages import DiagnosticResult


def following(nodes: Mapping[str, Node], brake: Brake) -> Node | None:
    """Which node is put on trial next, of those that can be now; None while one is."""
    if brake.on or any(node.trial is not None for node in nodes.values()):
        return None
    can = [node for node in nodes.values() if node.trial_s is not None and _can_be_tested(node)]
    return min(can, key=lambda node: (node.trial_s or 0.0, node.name), default=None)


def _can_be_tested(node: Node) -> bool:
    there = node.present and node.notice is None and not node.releasing
    return there and node.quarantined and node.marked and node.kit is not None


def on_tick(turn: Turn) -> None:
    """End the trial that is out of time, begin the one that is due."""
    for name in turn.each_node(turn.nodes):
        trial = turn.nodes[name].trial
        if trial is not None and trial.until_s <= turn.now:
            _fail(turn, name, "no result came in time")
    due = following(turn.nodes, turn.brake)
    if due is not None and due.kit is not None and (due.trial_s or 0.0) <= turn.now:
        for _ in turn.each_node((due.name,)):
            _begin(turn, due, due.kit)


def _begin(turn: Turn, node: Node, kit: Kit) -> None:
    number = turn.sequence
    tests = alone(id=_title(number), node=node.name, limit_s=kit.diagnose_s)
    until_s = turn.now + turn.policy.connect_s + kit.diagnose_s
    trial = Trial(number=number, until_s=until_s, orders=tests)
    turn.node(node.name, trial=trial, called=number)
    turn.order(PutOnTrial(job=kit.job, node=node.name, trial=number, spec=kit.spec))
    turn.say(f"{node.name} is put on trial: its tests say whether it is used again")


def _title(number: int) -> str:
    """Of the diagnosis; those of jobs begin with the number of their incident."""
    return f"trial.{number}"


def on_ended(turn: Turn, event: DiagnosticEnded) -> None:
    """The results of a node's tests are in."""
    node = turn.nodes.get(event.node)
    if node is None or node.trial is None or event.id != _title(node.trial.number):
        return
    why = _failed(node, node.trial, event.results)
    if why:
        _fail(turn, event.node, why)
        return
    end(turn, event.node)
    eviction.trust(turn, event.node, asked=False)
    turn.say(f"{event.node} passed its tests and is trusted again")


def _failed(node: Node, trial: Trial, results: tuple[DiagnosticResult, ...]) -> str:
    """Why the tests do not clear the node; "" where they do."""
    compute_gflops = node.kit.compute_gflops if node.kit else 0.0
    verdict = judge_alone(node.name, trial.orders, results, compute_gflops=compute_gflops)
    return verdict.evidence[0] if verdict.bad or verdict.undecided else ""


def put_off(turn: Turn, node: str, why: str) -> None:
    """It could not be tested, which says nothing about it: it waits as long as before."""
    end(turn, node)
    wait_s = turn.nodes[node].trial_wait_s
    turn.node(node, trial_s=turn.now + wait_s)
    turn.say(f"{node} could not be put on trial ({why}); {_again(wait_s)}")


def object_to(turn: Turn, node: str, why: str) -> None:
    """Something is against the node; where it is on trial it has not passed it."""
    if turn.nodes[node].trial is not None:
        _fail(turn, node, why)


def _fail(turn: Turn, node: str, why: str) -> None:
    end(turn, node)
    eviction.wait_for_trial(turn, node)
    wait_s = turn.nodes[node].trial_wait_s
    turn.say(f"{node} did not pass its trial ({why}) and stays out; {_again(wait_s)}")


def _again(wait_s: float) -> str:
    return f"the next trial is in {wait_s:g} s"


def end(turn: Turn, node: str) -> None:
    """Give its executor back, where it is on trial, whatever came of it."""
    if turn.nodes[node].trial is not None:
        turn.node(node, trial=None)
        leave(turn, node)

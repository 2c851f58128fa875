"""Rules about tests of nodes: what counts as an answer, and what follows from a wrong one."""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Lent
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World

WRONGLY_EVICTED = 2
"""Standbys that fail one after another before a job tests none any more."""


def who_answers_was_tested(world: World, before: State, after: State, event: e.AnyEvent) -> None:
    """What counts as a node's answer to an exam was said after it had run that very exam."""
    node = before.nodes.get(event.node) if isinstance(event, e.DiagnosticEnded) else None
    exam = before.exams.get(node.exam or "") if node is not None else None
    if node is None or exam is None or node.name in exam.results:
        return
    now = after.exams.get(exam.id)
    counts = now is None or node.name in now.results
    ran = (node.name, exam.id) in world.tested
    require("who-answers-was-tested", ran or not counts, f"{node.name} in {exam.id}")


def who_takes_part_is_known_to(state: State, name: str) -> None:
    """A node is in an exam that is under way, and that has it run something or waits for it."""
    number = state.nodes[name].exam
    exam = state.exams.get(number or "")
    there = number is None or (exam is not None and name in exam.orders)
    require("who-takes-part-has-an-exam", there, f"{name} in {number}")


def one_failure_convicts_nobody(before: State, after: State, event: e.AnyEvent, name: str) -> None:
    """Tests convict whom something else accuses, or an exam before, and nobody who is alone."""
    old, new = before.nodes.get(name), after.nodes[name]
    exam = before.exams.get(old.exam or "") if old is not None else None
    told = isinstance(event, e.DiagnosticEnded) and exam is not None and exam.id == event.id
    if old is None or exam is None or not told or old.quarantined or not new.quarantined:
        return
    twice = name in exam.accused and len(exam.orders) > 1
    require("one-failure-convicts-nobody", twice, f"{name} in {exam}")


def who_fails_again_waits_longer(
    world: World, event: e.AnyEvent, before: State, after: State, name: str, now: float
) -> None:
    """Each eviction doubles the wait for a trial, until a person restores the node or another
    machine has its name; that it passed one in between changes nothing."""
    old, new, outs = before.nodes.get(name), after.nodes[name], world.outs
    if isinstance(event, e.NodeRestoreRequested):
        outs.pop(event.node, None)
    if new.quarantined and not (old is not None and old.quarantined):
        outs[name] = (outs.get(name, (0, now))[0] + 1, now)
    tried = new.quarantined and isinstance(new.holding, Lent)
    if tried and not (old and isinstance(old.holding, Lent)) and name in outs:
        times, since_s = outs[name]
        policy = world.scenario.policy
        least_s = min(policy.requalify_after_s * 2 ** (times - 1), policy.requalify_longest_s)
        late = now - since_s >= least_s - 1e-6
        require("who-fails-again-waits-longer", late, f"{name}: out {times} times, {least_s} s")


def a_wrong_test_is_given_up(world: World, name: str) -> None:
    """Of nodes that stand by two fail it, one after another, and no more are asked."""
    job = world.misjudged[name]
    victims = world.victims_of[job]
    victims.append(name)
    require("a-wrong-test-has-two-victims", len(victims) <= WRONGLY_EVICTED, f"{job}: {victims}")

"""Rules about nodes: what they are told, who has them, and who is evicted and tested."""

from holdfast.driver.core import effects as f
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase, Purpose, State
from holdfast.driver.core.state.node import Free, Lent, Node, Source, Trusted
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator.rules import exams
from holdfast.lab.simulator.rules.jobs import goes_later
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World


def orders_are_newer(before: State, decision: Decision) -> None:
    for effect in decision.effects:
        if isinstance(effect, f.Instruct):
            desired = effect.desired
            old = before.nodes.get(desired.node)
            newer = old is None or desired.generation > old.told.generation
            require("generation-grows", newer, f"{desired.node}: {desired.generation}")
            fenced = old is None or desired.epoch >= old.told.epoch
            require("no-order-of-an-older-epoch", fenced, f"{desired.node}: {desired.epoch}")


def unfit_nodes_are_not_asked_for(before: State, decision: Decision, now: float) -> None:
    for effect in decision.effects:
        if isinstance(effect, f.Allocate) and effect.job in before.jobs:
            unfit = before.jobs[effect.job].unfit.get(effect.node)
            asked = unfit is not None and unfit.until_s > now
            require("an-unfit-node-is-not-asked-for", not asked, f"{effect.node}: {unfit}")


def only_its_job_does_without_it(before: State, after: State, node: str) -> None:
    """That a job cannot have a node says nothing to the other jobs."""
    rest = after.nodes[node].against.get(Source.REST)
    rested = rest is not None and rest != before.nodes[node].against.get(Source.REST)
    require("an-unfit-node-is-free-for-others", not rested, node)


def nodes_with_a_notice_are_not_asked_for(decision: Decision) -> None:
    for effect in decision.effects:
        if isinstance(effect, f.Allocate):
            node = decision.state.nodes[effect.node]
            newly = node.told.called == decision.state.sequence
            to_be_free = node.notice is not None and newly
            require("a-node-to-be-free-gets-no-work", not to_be_free, f"{node.name}: {node.notice}")


def holder_and_held_agree(state: State, name: str) -> None:
    node = state.nodes[name]
    if node.job is not None:
        job = state.jobs.get(node.job)
        held = job is not None and name in job.members
        require("holder-and-held-agree", held, f"{name} says {node.job}")
        out = node.quarantined and not (job is not None and goes_later(job, node))
        require("no-rank-on-an-evicted-node", not out, name)


def only_the_guilty_are_evicted(world: World, before: State, after: State, name: str) -> None:
    old, new = before.nodes.get(name), after.nodes[name]
    if new.quarantined and (old is None or not old.quarantined):
        guilty = name in world.guilty or name in world.asked
        misjudged = not guilty and name in world.misjudged
        require("no-innocent-is-evicted", guilty or misjudged, f"{name}: {new.trust}")
        if misjudged:
            exams.a_wrong_test_is_given_up(world, name)


def only_the_evicted_are_tried(state: State, name: str) -> None:
    node = state.nodes[name]
    if isinstance(node.holding, Lent):
        doubted = not isinstance(node.trust, Trusted) and node.exam is not None
        require("only-the-evicted-are-tried", doubted, name)
        lent = [each for each in state.nodes.values() if isinstance(each.holding, Lent)]
        tried = [each.name for each in lent if each.quarantined]
        require("one-trial-at-a-time", len(tried) <= 1, f"{tried}")


def only_standbys_test_themselves(state: State, name: str) -> None:
    """And they do so while the job trains: a node that has a place has it for itself. Who helps
    stands by, too, or is free."""
    node = state.nodes[name]
    if _tests_itself(state, node):
        job = state.jobs.get(node.job or "")
        stands_by = job is not None and name in job.standbys and job.phase is Phase.RUNNING
        helps = name not in state.exams[node.exam or ""].suspects and isinstance(node.holding, Free)
        require("only-standbys-test-themselves", stands_by or helps, f"{name} for {node.job}")


def _tests_itself(state: State, node: Node) -> bool:
    exam = state.exams.get(node.exam or "")
    return exam is not None and exam.purpose is Purpose.STANDBY


def a_standbys_test_costs_nothing(before: State, after: State, event: e.AnyEvent) -> None:
    """Whatever came of it, the ranks of its job go on."""
    node = before.nodes.get(event.node) if isinstance(event, e.DiagnosticEnded) else None
    if node is None or node.job is None or not _tests_itself(before, node):
        return
    old, new = before.jobs[node.job], after.jobs[node.job]
    same = (old.epoch, old.phase, old.facts) == (new.epoch, new.phase, new.facts)
    require("a-standbys-test-costs-nothing", same, f"{new.name}: {new.why}")


def trust_is_earned(
    world: World, event: e.AnyEvent, before: State, after: State, name: str
) -> None:
    """A node is used again once it passed its tests, or a person says so; where a person evicted
    it, only then.
    """
    old, new = before.nodes.get(name), after.nodes[name]
    if isinstance(event, e.NodeRestoreRequested):
        world.kept_out.discard(event.node)
    elif isinstance(event, e.NodeEvictRequested) and after.nodes[event.node].quarantined:
        world.kept_out.add(event.node)
    elif old is not None and old.quarantined:
        require("what-people-evict-stays-out", new.quarantined or name not in world.kept_out, name)
        tests = event.results if isinstance(event, e.DiagnosticEnded) else ()
        passed = isinstance(old.holding, Lent) and bool(tests) and all(each.ok for each in tests)
        require("trust-is-earned", new.quarantined or passed, f"{name}: {old.trust}")
        begun = (
            new.quarantined and isinstance(new.holding, Lent) and not isinstance(old.holding, Lent)
        )
        require("no-trial-under-the-brake", not (begun and before.brake.on), name)

"""What must hold after every decision, each rule a function with the name of what it forbids.

Called by the simulated driver at each commit, and at the end. Must not change anything.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.driver.core import effects as f
from holdfast.driver.core import events as e
from holdfast.driver.core import moves
from holdfast.driver.core.deadlines import next_deadline
from holdfast.driver.core.incidents import LOSSES
from holdfast.driver.core.model import FINISHED, Incident, Job, Phase, Purpose, State, Wanted
from holdfast.driver.core.node import Free, Lent, Node, Source
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator.scenario import FREEZE, PART
from holdfast.protocol.faults import Blame, Kind

if TYPE_CHECKING:
    from holdfast.lab.simulator.world import World


class Broken(AssertionError):
    """A rule does not hold."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


def require(rule: str, holds: bool, text: object) -> None:
    if not holds:
        raise Broken(rule, str(text))


def check(world: "World", before: State, event: e.AnyEvent, decision: Decision, now: float) -> None:
    """All rules about one decision."""
    after = decision.state
    numbers_only_grow(before, after)
    orders_are_newer(before, decision)
    for name in decision.jobs:
        old, new = before.jobs.get(name), after.jobs.get(name)
        finished_stays_finished(name, old, new)
        if new is not None:
            epochs_only_grow(old, new)
            ranks_have_good_nodes(after, new)
            table_is_whole(new)
            budget_is_kept(new, now)
            who_can_meet_is_seated(old, new, after, now)
    for job in after.jobs.values():
        suspend_ends(job, now - world.driver.stood_since(job.since_s))
    unfit_nodes_are_not_asked_for(before, decision, now)
    nodes_with_a_notice_are_not_asked_for(decision)
    if isinstance(event, e.AllocationFailed) and event.unfit:
        only_its_job_does_without_it(before, after, event.node)
    for name in decision.nodes:
        holder_and_held_agree(after, name)
        only_the_guilty_are_evicted(world, before, after, name)
        only_the_evicted_are_tried(after, name)
        trust_is_earned(world, event, before, after, name)
        only_standbys_test_themselves(after, name)
    a_standbys_test_costs_nothing(before, after, event)
    brake_is_a_persons_to_release(before, after, event)
    if decision.nodes:
        brake_holds(world, before, after, decision, now)
    acknowledged_is_remembered(world, event, before, after)
    if isinstance(event, e.CheckpointStored):
        world.acknowledged(event)
    if decision.incident is not None:
        one_incident_a_cause(after)
        complainers_are_not_named(world, after, after.incidents.get(decision.incident))


def numbers_only_grow(before: State, after: State) -> None:
    require("sequence-grows-by-one", after.sequence == before.sequence + 1, after.sequence)
    require("term-grows", after.term >= before.term, after.term)
    require("epoch-grows", after.epoch >= before.epoch, after.epoch)
    require("incidents-grow", after.incident_count >= before.incident_count, after.incident_count)


def epochs_only_grow(old: Job | None, new: Job) -> None:
    require("job-epoch-grows", old is None or new.epoch >= old.epoch, new.name)
    seated_before = old is not None and old.seated and new.seated and old.epoch == new.epoch
    if seated_before and old is not None:
        require("one-table-an-epoch", old.seats == new.seats, f"{new.name}: {new.epoch}")


def who_can_meet_is_seated(old: Job | None, new: Job, after: State, now: float) -> None:
    """Written again, apart from the core: two nodes that could not reach each other are seated
    together only where no other node is to be had.
    """
    pairs = [set(each.nodes) for each in after.apart if now - each.at_s < 3_600]
    came = set(new.nodes) - set(old.nodes if old is not None else ())
    together = [two for two in pairs if two <= set(new.nodes) and two & came]
    others = [
        node.name
        for node in after.nodes.values()
        if node.job is None
        and node.present
        and not (node.quarantined or node.releasing or _barred(node, now))
        and not new.barred
        and not {*new.unfit, *new.tried, *new.moved} & {node.name}
        and not any(node.name in two and two & set(new.nodes) for two in pairs)
    ]
    kept = not (together and others)
    require("who-cannot-meet-is-not-seated", kept, f"{new.name}: {together}, free: {others}")


def _barred(node: Node, now: float) -> bool:
    ends = [why.until_s for why in node.against.values()]
    return any(until_s is None or until_s > now for until_s in ends)


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


def ranks_have_good_nodes(state: State, job: Job) -> None:
    for name in job.members:
        node = state.nodes[name]
        require("no-rank-on-an-evicted-node", not node.quarantined, f"{job.name} has {name}")
        require("holder-and-held-agree", node.job == job.name, f"{job.name} has {name}")
    require("a-node-has-one-place", len(set(job.members)) == len(job.members), job.members)


def holder_and_held_agree(state: State, name: str) -> None:
    node = state.nodes[name]
    if node.job is not None:
        job = state.jobs.get(node.job)
        held = job is not None and name in job.members
        require("holder-and-held-agree", held, f"{name} says {node.job}")
        require("no-rank-on-an-evicted-node", not node.quarantined, name)


def table_is_whole(job: Job) -> None:
    if job.seated:
        ranks = [seat.rank for seat in job.seats]
        require("every-rank-has-a-seat", ranks == list(range(job.world_size)), job.name)
        nodes = tuple(dict.fromkeys(seat.node for seat in job.seats))
        require("seats-are-places", nodes == job.places, f"{job.name}: {nodes} {job.places}")


def suspend_ends(job: Job, now: float) -> None:
    """A suspend that a person asked for ends in bounded time, whatever happens; while the driver
    stands still, which `now` leaves out, it can end nothing.
    """
    if job.phase is Phase.SUSPENDING and job.wanted is not Wanted.RUN:
        limit_s = job.plan.grace_s + 20.0 + 15.0  # until quiet is given up; a driver that is away
        require("every-suspend-ends", now - job.since_s <= limit_s, f"{job.name} {job.since_s}")


def budget_is_kept(job: Job, now: float) -> None:
    """Written again, apart from the core: a job that goes on has not used more than it may."""
    if job.phase is Phase.FAILED:
        return
    for blame, budget in (
        (Blame.USER, job.plan.user),
        (Blame.INFRASTRUCTURE, job.plan.infrastructure),
    ):
        since = now - budget.window_s
        used = sum(1 for spent in job.spent if spent.blame is blame and spent.at_s > since)
        require("budgets-are-kept", used <= budget.restarts, f"{job.name}: {used} for {blame}")


def finished_stays_finished(name: str, old: Job | None, new: Job | None) -> None:
    if old is not None and old.phase in FINISHED:
        same = new is None or new.phase is old.phase
        require("a-finished-job-stays-finished", same, f"{name}: {old.phase} {new and new.phase}")
    if new is not None and new.phase in FINISHED:
        require("a-finished-job-holds-nothing", not new.members and not new.incident, name)


def only_the_guilty_are_evicted(world: "World", before: State, after: State, name: str) -> None:
    old, new = before.nodes.get(name), after.nodes[name]
    if new.quarantined and (old is None or not old.quarantined):
        guilty = name in world.guilty or name in world.asked
        require("no-innocent-is-evicted", guilty, f"{name}: {new.trust}")


def only_the_evicted_are_tried(state: State, name: str) -> None:
    node = state.nodes[name]
    if isinstance(node.holding, Lent):
        require("only-the-evicted-are-tried", node.quarantined and node.exam is not None, name)
        lent = [each.name for each in state.nodes.values() if isinstance(each.holding, Lent)]
        others = [other for other in lent if other != name]
        require("one-trial-at-a-time", not others, f"{name} and {others}")


def only_standbys_test_themselves(state: State, name: str) -> None:
    """And they do so while the job trains: a node that has a place has it for itself."""
    node = state.nodes[name]
    if _tests_itself(state, node):
        job = state.jobs.get(node.job or "")
        stands_by = job is not None and name in job.standbys and job.phase is Phase.RUNNING
        require("only-standbys-test-themselves", stands_by, f"{name} for {node.job}")


def _tests_itself(state: State, node: Node) -> bool:
    exam = state.exams.get(node.exam or "")
    return exam is not None and exam.purpose is Purpose.STANDBY


def a_standbys_test_costs_nothing(before: State, after: State, event: e.AnyEvent) -> None:
    """Whatever came of it, the ranks of its job go on."""
    node = before.nodes.get(event.node) if isinstance(event, e.DiagnosticEnded) else None
    if node is None or node.job is None or not _tests_itself(before, node):
        return
    old, new = before.jobs[node.job], after.jobs[node.job]
    same = (old.epoch, old.phase, old.spent) == (new.epoch, new.phase, new.spent)
    require("a-standbys-test-costs-nothing", same, f"{new.name}: {new.why}")


def trust_is_earned(
    world: "World", event: e.AnyEvent, before: State, after: State, name: str
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
        begun = isinstance(new.holding, Lent) and not isinstance(old.holding, Lent)
        require("no-trial-under-the-brake", not (begun and before.brake.on), name)


def brake_holds(
    world: "World", before: State, after: State, decision: Decision, now: float
) -> None:
    """Written again, apart from the core: evictions within a minute, since a person looked."""
    evicted = [
        name
        for name in decision.nodes
        if after.nodes[name].quarantined
        and not (name in before.nodes and before.nodes[name].quarantined)
        and name not in world.asked
    ]
    if not evicted:
        return
    require("the-brake-holds", not before.brake.on, f"{evicted}: {before.brake.why}")
    since_s = max(now - 60, before.brake.at_s)
    lately = [node for node in after.nodes.values() if (node.record.evicted_s or 0.0) > since_s]
    total = len(
        {n.name for n in after.nodes.values() if _is_one(n, now)} | {n.name for n in lately}
    )
    require("never-too-many-evicted", len(lately) <= max(1, total // 2) + len(world.asked), evicted)
    silent = [node for node in lately if node.record.silenced]
    require("few-are-evicted-for-silence", len(silent) <= max(1, total // 5), evicted)


def _is_one(node: Node, now: float) -> bool:
    """Whether it counts among those that the brake's shares are of: it is there, held, or was."""
    went = node.gone_s is not None and node.gone_s > now - 60
    return node.present or node.job is not None or went


def brake_is_a_persons_to_release(before: State, after: State, event: e.AnyEvent) -> None:
    released = before.brake.on and not after.brake.on
    asked = isinstance(event, e.BrakeReleaseRequested)
    require("the-brake-is-released-by-people", asked or not released, after.brake.why)


def acknowledged_is_remembered(
    world: "World", event: e.AnyEvent, before: State, after: State
) -> None:
    for name in world.submitted:
        if name not in after.jobs and name in before.jobs:
            old = before.jobs[name]
            asked = old.wanted is Wanted.DELETE or isinstance(event, e.DeleteRequested)
            require("what-was-acknowledged-is-remembered", asked, name)
            world.deleted.add(name)


def one_incident_a_cause(state: State) -> None:
    for incident in state.incidents.values():
        for name in incident.waiting:
            job = state.jobs.get(name)
            belongs = job is not None and job.incident == incident.id
            require("a-job-has-one-open-incident", belongs, f"{name} {incident.id}")
        ran = incident.restored_s is not None or not incident.overtaken
        require("only-who-ran-again-has-another-incident", ran, incident.summary)
    losses = [i for i in state.incidents.values() if _only_a_loss(i)]
    for first, second in pairwise(losses):
        near = second.found_s - first.found_s < 1.0 and bool(first.jobs) and bool(second.jobs)
        require("a-correlated-loss-is-one-incident", not near, _pair(first, second))


def _only_a_loss(incident: Incident) -> bool:
    """Lost nodes are its cause from the beginning: each fault is one of them, and no job moved."""
    each_lost = incident.faults <= max(1, len(incident.nodes)) and not _moved(incident)
    each_lost = each_lost and not _came_back(incident)
    return incident.kind in LOSSES and incident.rung in (0, 2) and each_lost


def _came_back(incident: Incident) -> bool:
    """Its executor was there again at once: what followed had a cause of its own."""
    return any(piece.source.startswith("executor of ") for piece in incident.evidence)


def _moved(incident: Incident) -> bool:
    """A job left nodes within it that nothing is wrong with."""
    return any(piece.source == moves.NOTICE for piece in incident.evidence)


def complainers_are_not_named(world: "World", after: State, incident: Incident | None) -> None:
    """Nobody is named for having lost a peer, and who is known by a cause is named; a node that a
    job left without a conviction is known by none.
    """
    if incident is None:
        return
    died = incident.kind is Kind.RANK_CRASHED and incident.rank is not None
    really = any((job, incident.rank) in world.victims for job in incident.jobs)
    require("no-complainer-is-the-culprit", really or not died, incident.summary)
    left = {node for name in incident.jobs if name in after.jobs for node in after.jobs[name].moved}
    known = bool(set(incident.nodes) - left) and incident.kind not in LOSSES
    named = incident.node is not None or not known or _moved(incident)
    require("a-known-cause-is-named", named, f"{incident.summary}: {incident.nodes}")


def _pair(first: Incident, second: Incident) -> str:
    return f"incidents {first.id} ({first.summary}) and {second.id} ({second.summary})"


def no_deadline_stays(state: State, now: float, *, alive: bool) -> None:
    due = next_deadline(state)
    require("a-tick-clears-what-is-due", not alive or due is None or due > now, f"{due} at {now}")


def deadlines_are_known(state: State, found_s: float | None) -> None:
    wanted_s = next_deadline(state)
    require("deadlines-are-known", found_s == wanted_s, f"{found_s}, and not {wanted_s}")


def unfinished(world: "World") -> str:
    """What has not come to an end; "" once all has converged."""
    state = world.driver.state
    if not world.driver.alive:
        return "the driver is down"
    for name in world.jobs:
        job = state.jobs.get(name)
        if job is None and name not in world.deleted:
            return f"{name} was never accepted"
        if job is not None and not job.finished:
            return f"{name} is {job.phase} ({job.why}; {job.waiting})"
    for incident in state.incidents.values():
        if incident.open:
            return f"incident {incident.id} is open ({incident.summary})"
    for node in state.nodes.values():
        if not isinstance(node.holding, Free) or (node.quarantine and not node.quarantine.marked):
            return f"{node.name} is not given back"
    return ""


PEACEFUL = frozenset({"maintain", "restore"})
"""Wishes of people that leave time to save."""


def a_move_costs_nothing(world: "World", state: State) -> None:
    """Where nothing else happened, no step is lost by it and no restart is spent."""
    for incident in state.incidents.values():
        saved = all(world.jobs[name].store_every for name in incident.jobs)
        require("a-move-loses-no-step", not (saved and incident.steps_lost), incident.summary)
        require("a-move-blames-nobody", incident.node is None, incident.summary)
    for name, job in state.jobs.items():
        require("a-move-spends-nothing", not job.spent, name)


ONE_SHOT = frozenset({"kill-rank", "blip", "raise", "kill-executor", "lose-node", "lose-rack"})
"""Faults that are over at once: each can be the cause of one incident a job at most."""


def _cornered(world: "World") -> bool:
    """Whether a job had to have a lemon, or two nodes that cannot meet: there is no other node, or
    it has a fault, too."""
    kinds = [fault.kind for fault in world.scenario.faults if fault.kind != FREEZE]
    needed = sum(job.nodes for job in world.scenario.jobs)
    return bool({"lemon", PART} & set(kinds)) and (len(kinds) > 1 or needed >= world.scenario.nodes)


def _raised_alike(world: "World", name: str) -> bool:
    """Whether its code raised twice at one step, which two faults can bring about."""
    return any(job == name and times > 1 for (job, _), times in world.raised.items())


def verdict(world: "World") -> None:
    """Rules about the whole, once all has converged."""
    state = world.driver.state
    faults = tuple(fault for fault in world.scenario.faults if fault.kind != FREEZE)
    stopped = {"stop", "delete", "suspend", "bad-node", "bug"} & {fault.kind for fault in faults}
    for name, job in state.jobs.items():
        planned = job.plan.deadline_s is not None or bool(stopped)
        excused = len(faults) >= 3 or planned or _cornered(world)
        require("a-job-is-not-given-up-lightly", job.phase is Phase.SUCCEEDED or excused, name)
        restarts = job.plan.user.restarts
        if job.failure is not None and job.failure.traceback:
            fair = name in world.bugs or len(faults) > restarts or _raised_alike(world, name)
            require("a-users-fault-is-the-users", fair, f"{name}: {job.failure.reason}")
        if job.phase is Phase.SUCCEEDED:
            require("done-is-done", world.best[name] == world.jobs[name].steps, name)
    if faults and all(fault.kind in PEACEFUL for fault in world.scenario.faults):
        a_move_costs_nothing(world, state)
    if all(fault.kind in ONE_SHOT for fault in faults):
        most = len(faults)
        count = state.incident_count
        require("no-more-incidents-than-causes", count <= most, f"{count} for {most} faults")

"""Rules about the whole, once nothing goes wrong any more and all has converged."""

from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.core.state.node import Free
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.scenario import FREEZE, PART
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World


def unfinished(world: World) -> str:
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


def waits_for_people(world: World) -> str:
    """What only a person does, and nobody comes; "" where there is nothing."""
    if world.scenario.attended:
        return ""
    if world.driver.state.brake.on:
        return "the brake is on"
    for name in world.jobs:
        if not world.lookup.readable(name, checkpoints.all_of(world, name)):
            return f"nobody says where {name} begins"
    return ""


PEACEFUL = frozenset({"maintain", "restore"})
"""Wishes of people that leave time to save."""


def a_move_costs_nothing(world: World, state: State) -> None:
    """Where nothing else happened, no step is lost by it and no restart is spent."""
    for incident in state.incidents.values():
        saved = all(world.jobs[name].store_every for name in incident.jobs)
        require("a-move-loses-no-step", not (saved and incident.steps_lost), incident.summary)
        require("a-move-blames-nobody", incident.node is None, incident.summary)
    for name, job in state.jobs.items():
        require("a-move-spends-nothing", not any(fact.payer for fact in job.facts), name)


ONE_SHOT = frozenset({"kill-rank", "blip", "raise", "kill-executor", "lose-node", "lose-rack"})
"""Faults that are over at once: each can be the cause of one incident a job at most."""


def _cornered(world: World) -> bool:
    """Whether a job had to have a lemon, or two nodes that cannot meet: there is no other node, or
    it has a fault, too."""
    kinds = [fault.kind for fault in world.scenario.faults if fault.kind != FREEZE]
    needed = sum(job.nodes for job in world.scenario.jobs)
    return bool({"lemon", PART} & set(kinds)) and (len(kinds) > 1 or needed >= world.scenario.nodes)


def _raised_alike(world: World, name: str) -> bool:
    """Whether its code raised twice at one step, which two faults can bring about."""
    return any(job == name and times > 1 for (job, _), times in world.raised.items())


def a_stall_costs_nothing(world: World) -> None:
    """A driver that stands still evicts nobody, and has no more attempts begun than there were
    causes for one; nothing is trained again that was kept.
    """
    require("a-stall-evicts-nobody", not world.books.evicted, world.books.evicted)
    causes = sum(fault.kind != FREEZE for fault in world.scenario.faults)
    for name in world.jobs:
        attempts, repeated = len(world.lines[name]), world.books.repeated.get(name, 0)
        require("a-stall-restarts-nobody", attempts <= 1 + causes, f"{name}: {attempts}")
        unavoidable = world.books.unavoidable.get(name, 0)
        require("a-stall-loses-nothing", repeated <= unavoidable, f"{name}: {repeated} steps")


def verdict(world: World) -> None:
    """Rules about the whole, once all has converged."""
    state = world.driver.state
    faults = tuple(fault for fault in world.scenario.faults if fault.kind != FREEZE)
    stopped = {"stop", "delete", "suspend", "bad-node", "bug", "hungry"} & {
        fault.kind for fault in faults
    }
    for name, job in state.jobs.items():
        planned = job.plan.deadline_s is not None or bool(stopped)
        excused = len(faults) >= 3 or planned or _cornered(world) or bool(waits_for_people(world))
        require("a-job-is-not-given-up-lightly", job.phase is Phase.SUCCEEDED or excused, name)
        restarts = job.plan.user.restarts
        if job.failure is not None and job.failure.traceback:
            fair = name in world.bugs or len(faults) > restarts or _raised_alike(world, name)
            require("a-users-fault-is-the-users", fair, f"{name}: {job.failure.reason}")
        if job.phase is Phase.SUCCEEDED:
            require("done-is-done", world.best[name] == world.jobs[name].steps, name)
    held = world.holders.held()
    excused = world.put_back or bool(waits_for_people(world))
    require("what-nobody-has-is-given-back", excused or not held, held)
    if faults and all(fault.kind in PEACEFUL for fault in world.scenario.faults):
        a_move_costs_nothing(world, state)
    if world.scenario.family == "driver-stalled":
        a_stall_costs_nothing(world)
    if all(fault.kind in ONE_SHOT for fault in faults):
        most = len(faults)
        count = state.incident_count
        require("no-more-incidents-than-causes", count <= most, f"{count} for {most} faults")

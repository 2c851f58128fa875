"""The simulated cluster: what it says of its nodes, and how calls to it end.

Called by the driver's effects, at its start, and by faults.
"""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import notices
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World


def appear(world: World, machine: Machine) -> None:
    """The cluster says what the node is."""
    closed = "it is cordoned" if machine.cordoned else ""
    event = e.NodeAppeared(
        node=machine.name, rack=machine.rack, closed=closed, unmarked=not machine.marked
    )
    world.driver.receive(event)


def list_nodes(world: World) -> None:
    """What a driver hears of each node when it starts."""
    for machine in world.machines.values():
        if machine.up and not machine.cut:
            appear(world, machine)
        else:
            world.guilty.add(machine.name)
            gone = e.NodeVanished(node=machine.name, why="not there at start")
            world.driver.receive(gone)


def call(world: World, node: str, outcome: e.AnyEvent) -> None:
    """A call to the cluster: its outcome comes later, perhaps twice; some fail."""
    rng = world.rng(node, f"call {type(outcome).__struct_config__.tag}")
    soon_s, late_s, again_s = rng.uniform(0.001, 0.02), rng.uniform(0, 10), rng.uniform(0, 20)
    dice = rng.random() if world.noisy else 1.0
    if world.machines[node].full and isinstance(outcome, e.NodeAllocated):
        outcome = _failure(outcome, node, unfit=dice < 0.5, late=False)
    elif dice < 0.02:
        outcome = _failure(outcome, node, unfit=dice < 0.01, late=dice < 0.005)
    elif dice < 0.04:
        world.agenda.after(again_s, lambda: _told(world, node, outcome))
    done_s = (soon_s if dice > 0.1 else soon_s + late_s) + _slowly(world, node)
    world.agenda.after(done_s, lambda: _done(world, node, outcome))


def _slowly(world: World, node: str) -> float:
    """How much longer it takes while all calls are slow."""
    return world.rng(node, "slow call").uniform(0.0, world.calls_s) if world.calls_s else 0.0


def _done(world: World, node: str, outcome: e.AnyEvent) -> None:
    if isinstance(outcome, e.NodeDistrusted | e.NodeTrusted):
        world.machines[node].marked = isinstance(outcome, e.NodeDistrusted)
    _told(world, node, outcome)


def _told(world: World, node: str, outcome: e.AnyEvent) -> None:
    """It is so in the cluster's books by the time that anybody hears of it."""
    match outcome:
        case e.NodeAllocated(job=job, cause=cause):
            _give(world, node, job, cause)
        case e.NodeReleased(cause=cause):
            _take_back(world, node, cause)
        case _:
            pass
    world.driver.receive(outcome)


def _take_back(world: World, node: str, cause: int | None) -> None:
    if not world.holders.overtaken(node, cause):
        notices.given_back(world, node)
        world.holders.take_back(node, cause)


def _give(world: World, node: str, job: str, cause: int | None) -> None:
    """The job's executor is put there, and nothing takes that of another job away for it."""
    if world.holders.overtaken(node, cause):
        return
    other = world.holders.of(node)
    alone = world.put_back or other in ("", job)
    require("a-node-has-one-holder", alone, f"{node} is given to {job}, and {other} has it")
    notices.given(world, node, job)
    world.holders.give(node, job, cause)


def _failure(outcome: e.AnyEvent, node: str, *, unfit: bool, late: bool) -> e.AnyEvent:
    """How the same call ends when it fails."""
    match outcome:
        case e.NodeAllocated(job=job, cause=cause):
            return e.AllocationFailed(
                job=job, node=node, why="no room", unfit=unfit, late=late, cause=cause
            )
        case e.NodeReleased(cause=cause):
            return e.ClusterCallFailed(call="release", node=node, why="409", cause=cause)
        case e.NodeDistrusted(cause=cause):
            return e.ClusterCallFailed(call="distrust", node=node, why="409", cause=cause)
        case _:
            return e.ClusterCallFailed(call="trust", node=node, why="409", cause=outcome.cause)

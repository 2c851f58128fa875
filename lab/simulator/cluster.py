"""The simulated cluster: what it says of its nodes, and how calls to it end.

Called by the driver's effects, at its start, and by faults.
"""

from holdfast.driver.core import events as e
from holdfast.lab.simulator.machines import Machine
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
    rng = world.rng(node, f"call {type(outcome).__name__}")
    soon_s, late_s, again_s = rng.uniform(0.001, 0.02), rng.uniform(0, 10), rng.uniform(0, 20)
    dice = rng.random() if world.noisy else 1.0
    if dice < 0.02:
        outcome = _failure(outcome, node, unfit=dice < 0.01, late=dice < 0.005)
    elif dice < 0.04:
        world.agenda.after(again_s, lambda: world.driver.receive(outcome))
    done_s = soon_s if dice > 0.1 else soon_s + late_s
    world.agenda.after(done_s, lambda: _done(world, node, outcome))


def _done(world: World, node: str, outcome: e.AnyEvent) -> None:
    if isinstance(outcome, e.NodeDistrusted | e.NodeTrusted):
        world.machines[node].marked = isinstance(outcome, e.NodeDistrusted)
    world.driver.receive(outcome)


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

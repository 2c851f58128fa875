"""Nodes that people want free, and nodes that jobs keep so as to move there.

Called by the cluster where a node is given or given back. Looks at what people announced, at the
cluster's own books and at what trains where; of the driver it knows which jobs people still want.
"""

from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World


def given_back(world: World, node: str) -> None:
    """Its job lets it go, perhaps while it has to leave another node and has no more to move to."""
    job = world.holders.of(node)
    if job and node in _spare(world, job) and len(_spare(world, job)) <= len(leaves(world, job)):
        world.robbed[node] = job
    else:
        world.robbed.pop(node, None)


def given(world: World, node: str, job: str) -> None:
    """Who still needs it to move there is another job."""
    robbed = world.robbed.pop(node, job)
    needs = robbed != job and bool(leaves(world, robbed))
    require("what-a-move-needs-is-not-lent", not needs, f"{node} of {robbed} is given to {job}")


def leaves(world: World, job: str) -> tuple[str, ...]:
    """Nodes that the job, which people want to run, trains on and has to leave."""
    known, run = world.driver.state.jobs.get(job), world.newest_run(job)
    if known is None or known.finished or not known.goes_on or run is None:
        return ()
    announced = world.promises.free_by
    return tuple(node for node in _held(world, job) if node in announced and node in run.nodes)


def _spare(world: World, job: str) -> tuple[str, ...]:
    """Nodes that it has beside those on which it trains, and that it could move to."""
    run = world.newest_run(job)
    held = [node for node in _held(world, job) if node not in world.promises.free_by]
    return tuple(node for node in held if run is not None and node not in run.nodes)


def _held(world: World, job: str) -> tuple[str, ...]:
    """Those of its nodes that are there."""
    machines = [world.machines[node] for node in world.holders.nodes_of(job)]
    return tuple(each.name for each in machines if each.up and not each.cut)

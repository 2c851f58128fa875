"""What people do in the simulated world: submit jobs, look after nodes, say where a job begins.

Called by `simulate`.
"""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import stored
from holdfast.lab.simulator.scenario import SimJob
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Task


def submit(world: World, job: SimJob) -> None:
    """A person submits it, again and again until it is acknowledged."""
    if world.driver.request(e.JobSubmitted(job=job.name, plan=plan_of(job))):
        world.submitted.add(job.name)
        world.books.submitted(job.name, world.now)
    elif job.name not in world.driver.state.jobs:
        world.agenda.after(1.0, lambda: submit(world, job))


def plan_of(job: SimJob) -> e.Plan:
    task = Task(
        command=("train",),
        workdir=".",
        store_url="file:///store" if job.store_every else "",
        store_interval_steps=job.store_every,
    )
    return e.Plan(
        task=task,
        nodes=job.nodes,
        ranks_per_node=job.ranks_per_node,
        standbys=job.standbys,
        suspend=job.suspend,
        deadline_s=job.deadline_s,
        start_s=60.0,
        grace_s=5.0,
    )


def attend(world: World) -> None:
    """People look after the cluster: evicted nodes are restored, suspended jobs resumed."""
    for node in list(world.driver.state.nodes.values()):
        if node.quarantined or node.notice is not None:
            world.driver.request(e.NodeRestoreRequested(node=node.name, reason="repaired"))
    world.driver.request(e.BrakeReleaseRequested(reason="looked at"))
    for name in world.jobs:
        world.driver.request(e.ResumeRequested(job=name))
        _decide(world, name)


def _decide(world: World, name: str) -> None:
    """A person says where a job begins that found none of what it had stored."""
    job = world.driver.state.jobs.get(name)
    if job is not None and not world.shelf.readable(name, stored.all_of(world, name)):
        grant(world, name)


def grant(world: World, name: str) -> None:
    """A person has the job begin anew."""
    if world.driver.request(e.ResumeRequested(job=name, from_step=0)):
        world.granted.add(name)

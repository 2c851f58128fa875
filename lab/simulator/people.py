"""What people do in the simulated world: submit jobs, look after nodes, say where a job begins.

Called by `simulate`.
"""

from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.scenario import SimJob
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Task

ASKS_AGAIN_S = 0.1
"""How often a person looks whether a job is gone."""


def submit(world: World, job: SimJob) -> None:
    """A person submits it, again and again until it is acknowledged."""
    if world.driver.request(e.JobSubmitted(job=job.name, plan=plan_of(job))):
        world.submitted.add(job.name)
        world.books.submitted(job.name, world.now)
        if job.suspend:
            world.promises.rest(job.name, world.driver.state.epoch)
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
            restore(world, node.name, "repaired")
    world.driver.request(e.BrakeReleaseRequested(reason="looked at"))
    for name in world.jobs:
        resume(world, name)
        _decide(world, name)


def _decide(world: World, name: str) -> None:
    """A person says where a job begins that found none of what it had stored."""
    job = world.driver.state.jobs.get(name)
    if job is not None and not world.lookup.readable(name, checkpoints.all_of(world, name)):
        grant(world, name)


def grant(world: World, name: str) -> None:
    """A person has the job begin anew."""
    world.promises.go_on(name)
    if world.driver.request(e.ResumeRequested(job=name, from_step=0)):
        world.granted.add(name)


def update(world: World, name: str) -> None:
    """A person gives the job another version of its script."""
    job = world.driver.state.jobs.get(name)
    if job is not None:
        task = replace(job.plan.task, command=("train", f"{job.version.number + 1}"))
        plan = replace(job.plan, task=task)
        world.driver.request(e.UpdateRequested(job=name, plan=plan, fields=("command",)))


def suspend(world: World, name: str) -> None:
    """A person wants the job to rest. What is seated by then may still begin."""
    job = world.driver.state.jobs.get(name)
    if world.driver.request(e.SuspendRequested(job=name)) and job is not None:
        world.promises.rest(name, job.epoch if job.seated else job.epoch - 1)


def resume(world: World, name: str) -> None:
    world.promises.go_on(name)
    world.driver.request(e.ResumeRequested(job=name))


def maintain(world: World, node: str, within_s: float | None) -> None:
    """A person wants to work on the node, once it is free, or after so long."""
    event = e.NodeMaintainRequested(node=node, reason="new kernel", within_s=within_s)
    if world.driver.request(event):
        world.promises.announce(node, None if within_s is None else world.now + within_s)


def restore(world: World, node: str, reason: str) -> None:
    world.promises.withdraw(node)
    world.driver.request(e.NodeRestoreRequested(node=node, reason=reason))


def begin_anew(world: World, job: SimJob) -> None:
    """A person deletes the job, waits until it is gone, and submits it again under its name."""
    if not world.driver.alive or job.name in world.driver.state.jobs:
        world.driver.request(e.DeleteRequested(job=job.name))
        world.agenda.after(ASKS_AGAIN_S, lambda: begin_anew(world, job))
        return
    world.begin_life(job.name)
    submit(world, job)

"""What nodes told of a job's ranks: in earlier Holdfasts the job kept it, now each node does. Pure.

Called by `encode` once all else has the form of today.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from holdfast.driver.core.attempt.tally import with_ends
from holdfast.driver.core.state.model import Job, State, Tally
from holdfast.driver.core.state.node import Node


def of_today(state: State, running: Mapping[str, Collection[str]]) -> State:
    """Earlier Holdfasts kept with the job what its nodes told, and counted no vacant places.
    `running`: by job, which of them had told that their ranks run.
    """
    nodes, jobs = dict(state.nodes), {}
    for name, job in state.jobs.items():
        jobs[name] = replace(job, vacant=job.places.count(""))
        ran = running.get(name, ())
        if job.finished or not (job.exits or ran):
            continue
        for node in (nodes[each] for each in job.nodes if each in nodes):
            nodes[node.name] = _told(node, job, ran=node.name in ran)
        sums, now = with_ends(Tally(running=len(ran)), job.exits), job.tally
        sums = replace(sums, quiet=now.quiet, ending=now.ending)
        jobs[name] = replace(jobs[name], exits=(), tally=sums)
    return replace(state, jobs=jobs, nodes=nodes)


def _told(node: Node, job: Job, *, ran: bool) -> Node:
    if node.held is None:
        return node
    exits = tuple(
        replace(each, at=order) for order, each in enumerate(job.exits) if each.node == node.name
    )
    epoch = job.epoch
    told = replace(node.held, ran=epoch if ran else 0, exited=epoch if exits else 0, exits=exits)
    return replace(node, holding=told)

"""Rules about incidents: one a cause, and who is named."""

from itertools import pairwise

from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults.incidents import LOSSES
from holdfast.driver.core.job import maintenance
from holdfast.driver.core.state.model import Incident, State
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Kind, Rung


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
    return incident.kind in LOSSES and incident.rung in (Rung.NONE, Rung.REPLACE) and each_lost


def _came_back(incident: Incident) -> bool:
    """Its executor was there again at once: what followed had a cause of its own."""
    return any(piece.source.startswith("executor of ") for piece in incident.evidence)


def _moved(incident: Incident) -> bool:
    """A job left nodes within it that nothing is wrong with."""
    return any(piece.source == maintenance.NOTICE for piece in incident.evidence)


def complainers_are_not_named(world: World, after: State, incident: Incident | None) -> None:
    """Nobody is named for having lost a peer, and who is known by a cause is named; a node that a
    job left without a conviction is known by none.
    """
    if incident is None:
        return
    died = incident.kind is Kind.RANK_CRASHED and incident.rank is not None
    really = any((job, incident.rank) in world.victims for job in incident.jobs)
    require("no-complainer-is-the-culprit", really or not died, incident.summary)
    hit = [after.jobs[name] for name in incident.jobs if name in after.jobs]
    left = {node.name for job in hit for node in book.moved_off(job.facts, world.now)}
    known = bool(set(incident.nodes) - left) and incident.kind not in LOSSES
    named = incident.node is not None or not known or _moved(incident)
    require("a-known-cause-is-named", named, f"{incident.summary}: {incident.nodes}")


def _pair(first: Incident, second: Incident) -> str:
    return f"incidents {first.id} ({first.summary}) and {second.id} ({second.summary})"

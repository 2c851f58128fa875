"""A place that moves to another node without proof against the one that it had.

Called by the ladder, and by whoever asks whether it may before it gives up. Pure. Tests that find
nothing do not cure a node on which ranks die again and again: another one tells more. It is no
eviction: nothing is held against the node, other jobs may have it at once, and this one has it
again where it gets no better one. The last step is saved first, as in `moves`.
"""

from holdfast.driver.core.allocation import free_nodes
from holdfast.driver.core.candidates import fitting, moved_off
from holdfast.driver.core.model import Fault, Job
from holdfast.driver.core.turn import Turn


def may_move(turn: Turn, job: Job, node: str | None) -> bool:
    """Whether the job's place on this node may be tried on another one: a standby or a free node
    that is there, and that it has not moved off itself lately."""
    if node is None or node not in job.places or node in job.leaving:
        return False
    there = [standby for standby in job.standbys if turn.nodes[standby].present]
    known = moved_off(turn, job)
    return any(other not in known for other in there + fitting(turn, job, free_nodes(turn)))


def to_move(turn: Turn, job: Job, fault: Fault) -> str | None:
    """The node whose place is tried on another one first: the fault's, or the later one of two that
    cannot reach each other, so that rank 0 and its store stay; None where there is none.
    """
    places = sorted((node for node in fault.apart if node in job.places), key=job.places.index)
    seated = len(fault.apart) == len(places) > 0
    node = places[-1] if seated else fault.node
    return node if may_move(turn, job, node) else None


def move(turn: Turn, name: str, node: str) -> None:
    """Have the job leave the node once its ranks have ended."""
    job = turn.jobs[name]
    known = moved_off(turn, job)
    moved = {other: at_s for other, at_s in job.moved.items() if other in known}
    turn.job(name, moved={**moved, node: turn.now}, leaving=(*job.leaving, node))
    turn.say(f"nothing is proved against {node}: it is free for others")

"""Places in a job's script where it stood still, and how often it was restarted for that.

Called by the ladder; the detectors are told the counts with each epoch, and wait longer at such a
place. Pure. A spot that several restarts, ever more patience and another node, where one was free,
did not cure is the script's own.
"""

from msgspec.structs import replace

from holdfast.driver.core import elsewhere
from holdfast.driver.core.model import Fault, Incident, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame

KEPT = 32
"""Spots that a job remembers, the latest ones."""


def noted(turn: Turn, name: str, fault: Fault, incident: Incident) -> Fault:
    """Count the fault's spot. Once no other node is to be tried either the fault is the user's."""
    job = turn.jobs[name]
    if not fault.spot:
        return fault
    times = job.spots.get(fault.spot, 0) + 1
    others = {spot: count for spot, count in job.spots.items() if spot != fault.spot}
    latest = dict([*others.items(), (fault.spot, times)][-KEPT:])
    turn.job(name, spots=latest)
    if not _over(turn, turn.jobs[name], fault):
        return fault
    return replace(fault, blame=Blame.USER, traceback=_stack(fault, incident))


def used_up(turn: Turn, job: Job, fault: Fault) -> str:
    """Why another restart would not help; "" where it may."""
    if not _over(turn, job, fault):
        return ""
    times = job.spots[fault.spot]
    also = ", also on another node" if times > turn.policy.spot_tries else ""
    again = f"{fault.summary}. It stood still there {times} times ({fault.spot}){also}"
    return f"{again}, each time for longer before it was restarted. {fault.fix}".rstrip()


def at_last(turn: Turn, job: Job, fault: Fault) -> bool:
    """Whether it has come so often at one spot that only another node may help."""
    return bool(fault.spot) and job.spots.get(fault.spot) == turn.policy.spot_tries


def _over(turn: Turn, job: Job, fault: Fault) -> bool:
    if at_last(turn, job, fault):
        return elsewhere.to_move(turn, job, fault) is None
    return bool(fault.spot) and job.spots.get(fault.spot, 0) > turn.policy.spot_tries


def _stack(fault: Fault, incident: Incident) -> str:
    """Of the rank that held the job up, else of the first that was looked at."""
    taken = incident.stacks
    rank = fault.rank if fault.rank in taken else min(taken, default=None)
    return "" if rank is None else f"Stack of rank {rank}:\n{taken[rank]}"

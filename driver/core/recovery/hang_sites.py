"""Places in a job's script where it stood still, and how often it was restarted for that.

Called by the ladder; the detectors are told the counts with each epoch, and wait longer at such a
place. Pure. A spot that several restarts, ever more patience and another node, where one was free,
did not cure is the script's own. What a restart cured for long is counted anew when it comes again.
"""

from msgspec.structs import replace

from holdfast.driver.core.placing import move_on_suspicion
from holdfast.driver.core.state.model import Fault, Incident, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame

KEPT = 32
"""Spots that a job remembers, the latest ones."""


def noted(turn: Turn, name: str, fault: Fault, incident: Incident) -> Fault:
    """Count the fault's spot. Once no other node is to be tried either the fault is the user's."""
    job = turn.jobs[name]
    if not fault.spot:
        return fault
    times = _lately(turn, job, fault) + 1
    others = {spot: count for spot, count in job.spots.items() if spot != fault.spot}
    latest = dict([*others.items(), (fault.spot, times)][-KEPT:])
    passed = {spot: at_s for spot, at_s in job.passed.items() if spot in others}
    turn.job(name, spots=latest, passed=passed)
    if not _over(turn, turn.jobs[name], fault):
        return fault
    return replace(fault, blame=Blame.USER, traceback=_stack(fault, incident))


def _lately(turn: Turn, job: Job, fault: Fault) -> int:
    """Restarts at the fault's spot that did not cure it: none where the job has got further than
    ever since, and stands there again only after the window of the user's budget.
    """
    began_s = turn.now - fault.stalled_s
    cured = began_s - job.passed.get(fault.spot, began_s) > job.plan.user.window_s
    return 0 if cured else job.spots.get(fault.spot, 0)


def got_on(turn: Turn, name: str) -> None:
    """The job got further than ever, so it is past its spots. At those that it is past for longer
    than the window the detectors are as patient as after one restart: what is slow there stays so.
    """
    job = turn.jobs[name]
    passed = {spot: job.passed.get(spot, turn.now) for spot in job.spots}
    since_s = turn.now - job.plan.user.window_s
    spots = {spot: 1 if passed[spot] < since_s else times for spot, times in job.spots.items()}
    turn.job(name, spots=spots, passed=passed)


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
        return move_on_suspicion.to_move(turn, job, fault) is None
    return bool(fault.spot) and job.spots.get(fault.spot, 0) > turn.policy.spot_tries


def _stack(fault: Fault, incident: Incident) -> str:
    """Of the rank that held the job up, else of the first that was looked at."""
    taken = incident.stacks
    rank = fault.rank if fault.rank in taken else min(taken, default=None)
    return "" if rank is None else f"Stack of rank {rank}:\n{taken[rank]}"

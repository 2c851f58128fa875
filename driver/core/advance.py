"""A job's next step, from what is: called again and again until nothing more follows.

Called by `decide` for each job that an event touched. Pure. Level-based: it asks where the job
stands, never what just happened, so late, repeated or reordered facts lead to the same end.
"""

from collections.abc import Callable

from holdfast.driver.core import exams
from holdfast.driver.core.attempt import saving, tally
from holdfast.driver.core.attempt.quiet import is_quiet
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.job import candidates, finish, maintenance
from holdfast.driver.core.job.allocation import ready, undo_start
from holdfast.driver.core.job.epochs import all_set, open_epoch, seat
from holdfast.driver.core.state.model import Job, Phase, Timer, Wanted
from holdfast.driver.core.testing import diagnosis, rounds
from holdfast.driver.core.turn import Turn


def advance(turn: Turn, name: str) -> bool:
    """Take the job as far as it can go now. True if anything changed."""
    moved = False
    while True:
        job = turn.jobs.get(name)
        if job is None or job.parked or job.finished or not _step(turn, job):
            return moved
        moved = True


def _step(turn: Turn, job: Job) -> bool:
    if not job.goes_on and job.phase is not Phase.SUSPENDING:
        return _wind_up(turn, job)
    if job.phase in IN_EPOCH and not job.seated and (why := _outgrown(turn, job)):
        open_epoch(turn, job.name)
        turn.say(f"{job.name} orders its nodes anew: {why}")
        return True
    step = STEPS.get(job.phase)
    return step is not None and step(turn, job)


def _wind_up(turn: Turn, job: Job) -> bool:
    """End, stop or suspend a job that has nothing running."""
    if job.phase is Phase.SUSPENDED and job.wanted is Wanted.SUSPEND:
        return False
    if job.wanted is Wanted.SUSPEND and job.ends is None:
        finish.suspend(turn, job.name)
    else:
        finish.stop(turn, job.name)
    return True


def _outgrown(turn: Turn, job: Job) -> str:
    """Why the epoch cannot be used any more, though no rank has run in it; "" where it can."""
    if job.host and job.host != job.rendezvous_host:
        return f"its ranks are to meet on {job.host}"
    if job.epoch >= turn.epoch:
        return ""  # no later one was ever given
    newer = [node for node in job.nodes if turn.nodes[node].told.epoch > job.epoch]
    return f"{', '.join(newer)} had a newer order already" if newer else ""


def _allocating(turn: Turn, job: Job) -> bool:
    if job.vacant:
        undo_start(turn, job.name, "one is missing, and none is to be had in time")
        return True
    if not all(ready(turn.nodes[node]) for node in reversed(job.places)):
        return False  # they come in their order: the last one is asked first, at each one's word
    turn.move(job.name, Phase.STARTING)
    open_epoch(turn, job.name)
    turn.say(f"every executor of {job.name} is connected", job.name)
    return True


def _starting(turn: Turn, job: Job) -> bool:
    if job.seated:
        return _running_now(turn, job)
    if job.vacant:
        turn.move(job.name, Phase.REPLACING)
        return True
    return all_set(turn, job) and seat(turn, job.name)


def _running_now(turn: Turn, job: Job) -> bool:
    """All ranks have started, or have ended well already."""
    if job.tally.failed or not tally.started(turn, job):
        return False
    turn.move(job.name, Phase.RUNNING)
    turn.drop_timers(job.name, Timer.START)
    turn.set_timer(job.name, Timer.SETTLE, turn.policy.settle_s)
    candidates.forget(turn, job.name)
    turn.say(f"{job.name} runs", job.name)
    incidents.note(turn, job, restored_s=turn.now)
    return True


def _running(turn: Turn, job: Job) -> bool:
    if job.tally.failed or job.tally.ended < job.world_size:
        return False
    finish.succeed(turn, job.name)
    return True


def _suspending(turn: Turn, job: Job) -> bool:
    if job.tally.ending:
        return False
    if not job.goes_on:
        return saving.is_saved(turn, job) and _wind_up(turn, job)
    if job.leaving and not maintenance.leave_nodes(turn, job.name):
        return False
    if job.swaps and not maintenance.swap_places(turn, job.name):
        return False
    job = turn.jobs[job.name]
    incidents.note(turn, job, suspended_s=turn.now)
    if job.suspects:
        turn.move(job.name, Phase.DIAGNOSING)
    elif not all_set(turn, job):
        turn.move(job.name, Phase.REPLACING)
    else:
        turn.move(job.name, Phase.RESTORING)
    return True


def _diagnosing(turn: Turn, job: Job) -> bool:
    exam = turn.exams.get(job.exam or "")
    if exam is None and job.suspects:
        if any(not is_quiet(turn.nodes[node], job) for node in job.suspects) or _few(turn, job):
            return False
        diagnosis.begin(turn, job.name)
        return True
    if exam is not None:
        if not exams.complete(turn, exam):
            return False
        diagnosis.conclude(turn, exam)
        return True
    if job.leaving:
        turn.move(job.name, Phase.SUSPENDING)
    else:
        turn.move(job.name, Phase.RESTORING if all_set(turn, job) else Phase.REPLACING)
    return True


def _few(turn: Turn, job: Job) -> bool:
    """Whether fewer nodes are quiet than tests want, and it is time yet for more to be: a standby
    is later than they, at times."""
    if job.tally.quiet > rounds.HELPERS or Timer.QUIET not in job.timers:
        return False
    later = (node for node in map(turn.nodes.get, job.members) if node and node.connected)
    return any(not is_quiet(node, job) for node in later)


def _replacing(turn: Turn, job: Job) -> bool:
    if job.vacant:
        if Timer.HOLD not in job.timers:
            turn.set_timer(job.name, Timer.HOLD, turn.policy.hold_s)
        return False
    turn.drop_timers(job.name, Timer.HOLD)
    if not all_set(turn, job):
        return False
    turn.move(job.name, Phase.RESTORING)
    incidents.note(turn, job, replaced_s=turn.now)
    return True


def _restoring(turn: Turn, job: Job) -> bool:
    if job.seated:
        return _running_now(turn, job)
    if not all_set(turn, job):
        turn.move(job.name, Phase.REPLACING)
        return True
    return seat(turn, job.name)


IN_EPOCH = frozenset(
    {Phase.STARTING, Phase.SUSPENDING, Phase.DIAGNOSING, Phase.REPLACING, Phase.RESTORING}
)
"""Phases in which ranks are about to be seated, or have been."""

STEPS: dict[Phase, Callable[[Turn, Job], bool]] = {
    Phase.ALLOCATING: _allocating,
    Phase.STARTING: _starting,
    Phase.RUNNING: _running,
    Phase.SUSPENDING: _suspending,
    Phase.DIAGNOSING: _diagnosing,
    Phase.REPLACING: _replacing,
    Phase.RESTORING: _restoring,
}

"""A job's last step on its way to the store, before nodes are left: how long it is waited for.

Called by `maintenance`, `ranks` and ticks. Pure. A store that is slow is no failing one: while
bytes of the step reach it the move waits, within bounds. Where nothing does, and an agent has an
error to tell, the step is given up after seconds.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.quiet import quiet_of
from holdfast.driver.core.state.model import Job, Saving, Timer, Wanted
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.state.restore_point import Where, best
from holdfast.driver.core.turn import Turn
from holdfast.protocol.messages import Stored


def unsaved(turn: Turn, job: Job) -> Stored | None:
    """What a restart would go back to, where only the nodes' memory has it: neither does a look at
    the store show it, whose list may lag, nor was it acknowledged.
    """
    if job.vacant or not can_save(job):
        return None
    told = quiet_of(turn.nodes, job)
    point = best(known_points.told(job, told)).point
    if point is None or point.where is Where.STORE:
        return None
    found = Stored(step=point.step, epoch=point.epoch)
    shown = any(found in quiet.stored for quiet in told.values())
    known = any(stored.saved == point.saved for stored in known_points.in_store(job))
    return None if shown or known else found


def is_saved(turn: Turn, job: Job) -> bool:
    """Before a job is stopped or suspended, whose nodes forget it: its last step is in the store,
    or was given up. Who stops it waits no longer than for its ranks; a suspended one may take long.
    """
    point = unsaved(turn, job) if job.wanted in (Wanted.STOP, Wanted.SUSPEND) else None
    if point is not None and job.save is None:
        stops = job.wanted is Wanted.STOP
        begin(turn, job, point, by_s=turn.now + job.plan.grace_s if stops else None)
    return point is None or not goes_on(turn, job.name)


def can_save(job: Job) -> bool:
    """Whether the job has a store to which its last step can go before a node is left."""
    task = job.plan.task
    return bool(task.store_url and task.store_interval_steps)


def begin(turn: Turn, job: Job, point: Stored, *, by_s: float | None) -> None:
    """Have it written. `by_s`: when a node has to be free; None: there is no such time."""
    policy = turn.policy
    until_s = turn.now + policy.save_longest_s if by_s is None else by_s
    left_s = policy.save_gap_s if by_s is None else by_s - turn.now
    turn.job(job.name, save=point, saving=Saving(until_s=until_s))
    turn.set_timer(job.name, Timer.SAVE, max(left_s, policy.quiet_s))
    turn.say(f"step {point.step} of {job.name} goes to the store", job.name)


def goes_on(turn: Turn, name: str) -> bool:
    """Whether the step is still waited for; asked whenever a node has something new to say."""
    if Timer.SAVE not in turn.jobs[name].timers:
        return False
    job, policy = turn.jobs[name], turn.policy
    if not _store_error(turn, job):
        turn.drop_timers(name, Timer.SAVE_FAILS)
    elif Timer.SAVE_FAILS not in job.timers:
        moves = job.saving is not None and job.saving.taken_bytes > 0
        turn.set_timer(name, Timer.SAVE_FAILS, policy.save_gap_s if moves else policy.save_fails_s)
    return True


def gets_on(turn: Turn, job: Job, taken_bytes: int) -> None:
    """Wait longer where more of the step has reached the store."""
    known = job.saving
    if Timer.SAVE not in job.timers or known is None or taken_bytes <= known.taken_bytes:
        return
    turn.job(job.name, saving=replace(known, taken_bytes=taken_bytes))
    turn.drop_timers(job.name, Timer.SAVE_FAILS)
    until_s = min(turn.now + turn.policy.save_gap_s, known.until_s)
    if until_s > job.timers[Timer.SAVE]:
        turn.set_timer(job.name, Timer.SAVE, until_s - turn.now)
    turn.say(f"{_size(taken_bytes)} of the last step of {job.name} are in the store so far")


def _size(octets: int) -> str:
    return f"{octets / 1e6:,.0f} MB" if octets >= 1e6 else f"{max(1, round(octets / 1e3))} kB"


def give_up(turn: Turn, job: Job) -> None:
    """The store has failed for so long that the last step is not waited for any more."""
    if job.save is not None:
        turn.drop_timers(job.name, Timer.SAVE)
        _do_without(turn, job, job.save, f"its store fails: {_store_error(turn, job)}")


def out_of_time(turn: Turn, job: Job) -> None:
    """All the time that there was is over."""
    if job.save is not None:
        error = _store_error(turn, job) or _silent_agents(turn, job)
        why = f"it did not reach the store in time: {error}".removesuffix(": ")
        _do_without(turn, job, job.save, why)


def _do_without(turn: Turn, job: Job, point: Stored, why: str) -> None:
    last = known_points.newest_stored(job)
    goes_on = "with what its store has"
    if last is not None:
        goes_on = f"from step {last.step}, the last in its store"
    told = f"step {point.step} of {job.name} is not saved; it goes on {goes_on}"
    turn.say(f"{told}: {why}", job.name)


def _store_error(turn: Turn, job: Job) -> str:
    """Of the nodes that have the step. What a standby lacks is no hindrance: it saves nothing."""
    return next((quiet.store_error for _, quiet in _saving(turn, job) if quiet.store_error), "")


def _silent_agents(turn: Turn, job: Job) -> str:
    """No error of the store: what an agent does not say may be all well."""
    silent = ((node, quiet.agent_silent) for node, quiet in _saving(turn, job))
    told = (f"the checkpoint agent on {node} is silent: {why}" for node, why in silent if why)
    return next(told, "")


def _saving(turn: Turn, job: Job) -> Iterable[tuple[str, Quiet]]:
    told = quiet_of(turn.nodes, job)
    return ((node, told[node]) for node in job.places if node in told)

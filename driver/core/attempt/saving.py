"""A job's last step on its way to the store, before nodes are left: how long it is waited for.

Called by `maintenance`, `finish`, `ranks` and ticks. Pure. A store that is slow is no failing one:
while bytes of the step reach it the move waits, within bounds. Where nothing does, and an agent has
an error to tell, the step is given up after seconds.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.quiet import is_quiet, quiet_of
from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.state.model import Job, Saving, Timer, Wanted
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.state.restore_point import Where, best
from holdfast.driver.core.turn import Turn
from holdfast.protocol.messages import Stored

NAMED = 8
"""Nodes that a line has room for."""


def unsaved(turn: Turn, job: Job) -> Stored | None:
    """What a restart would go back to, where only the nodes' memory has it."""
    if job.vacant or not can_save(job):
        return None
    point = best(known_points.told(job, quiet_of(turn.nodes, job))).point
    if point is None or point.where is Where.STORE:
        return None
    found = Stored(step=point.step, epoch=point.epoch)
    return None if _is_stored(turn, job, found) else found


def _is_stored(turn: Turn, job: Job, one: Stored) -> bool:
    """A look at the store shows it, or it was acknowledged: a list may lag."""
    shown = any(one in quiet.stored for quiet in quiet_of(turn.nodes, job).values())
    saved = (one.step, one.epoch)
    return shown or any(each.saved == saved for each in known_points.in_store(job))


def may_be_left(turn: Turn, job: Job) -> bool:
    """Whether a job that is over may have left a step in memory alone. Where its ranks ended by
    themselves they have told that: who keeps no snapshots is not to wait for them.
    """
    if job.vacant or not (job.attempt and can_save(job)):
        return False
    exits = exits_of(turn.nodes, job)
    return any(each.status.sealed for each in exits) or not exits


def is_saved(turn: Turn, job: Job) -> bool:
    """Before a job ends, is stopped or suspended, whose nodes forget it: its last step is in the
    store, or was given up. A suspended one may take long; the others have the grace of its ranks.
    """
    if job.wanted is Wanted.DELETE:
        return True
    point = job.save if _comes_back(turn, job) else unsaved(turn, job)
    if point is not None and job.save is None:
        rests = job.ends is None and job.wanted is Wanted.SUSPEND
        begin(turn, job, point, by_s=None if rests else turn.now + job.plan.grace_s)
        turn.job(job.name, waiting=f"its last step, {point.step}, goes to the store")
    if point is None and not _is_lost(turn, job):
        turn.job(job.name, save=None, saving=None)
    return point is None or not is_awaited(turn, job.name)


def _is_lost(turn: Turn, job: Job) -> bool:
    """Whether nobody has the step any more that was to be saved. What the ranks of a job had left
    that is over, and no node has, is told, too: which step that was nobody knows.
    """
    if job.save is not None and not _is_stored(turn, job, job.save):
        turn.drop_timers(job.name, Timer.SAVE, Timer.SAVE_FAILS)
        _do_without(turn, job, job.save, "it is in no node's memory any more")
        return True
    kept = job.ends is not None and any(each.status.sealed for each in job.exits)
    bare = [node for node, quiet in _saving(turn, job) if not quiet.snapshots]
    if kept and bare:
        told = f"what ranks of {job.name} had in memory is gone from {', '.join(bare[:NAMED])}"
        turn.say(f"{told}; {_what_is(job)}", job.name)
    return False


def _comes_back(turn: Turn, job: Job) -> bool:
    """Whether a node has a new executor, which has still to say that the step is there."""
    if job.save is None or job.vacant or _is_stored(turn, job, job.save):
        return False
    return not all(is_quiet(turn.nodes[node], job) for node in job.places)


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


def is_awaited(turn: Turn, name: str) -> bool:
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
    told = f"step {point.step} of {job.name} is not saved; {_what_is(job)}"
    turn.say(f"{told}: {why}", job.name)


def _what_is(job: Job) -> str:
    """What is left of a job whose last step is not saved."""
    last = known_points.newest_stored(job)
    if job.ends is not None or job.wanted not in (Wanted.RUN, Wanted.SUSPEND):
        return f"step {last.step} is the last in its store" if last else "its store has none of it"
    goes_on = f"from step {last.step}, the last in its store" if last else "with what its store has"
    return f"it goes on {goes_on}"


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

"""From which step a job goes on: what every rank has in memory, else the store, else the beginning.

Called by `epochs` when all nodes are quiet. Pure. A snapshot counts only up to the end of the epoch
that wrote it: an epoch ends, in the journal, at the step from which the next one started. So what a
lost node saved later, or what a rolled-back line of training left in a store, is never taken.

What the store holds has three values: known steps, known to be none, and unknown. Unknown is never
taken for none, and no job goes behind a checkpoint that its store had acknowledged but by a
person's word: until then it waits.
"""

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.attempt.known_points import Told
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.state.restore_point import Choice, RestorePoint, Where, best


def reached(job: Job, told: Told) -> int | None:
    """The step that the epoch before completed, by the snapshots that are left of it.

    It is the least of the ranks' newest: a rank seals a step only when its peers took part in it.
    None where nothing is left.
    """
    newest: dict[int, int] = {}
    for quiet in told.values():
        for snapshot in quiet.snapshots:
            if known_points.is_newest(job, snapshot.epoch):
                newest[snapshot.rank] = max(snapshot.step, newest.get(snapshot.rank, 0))
    return min(newest.values(), default=None)


def again(before: int | None, start: int, *, most: str = "") -> str:
    """`: 17 steps are done again`, where a job that had completed `before` starts from `start`; ""
    where none is. `most`: "up to " where it may be fewer.
    """
    steps = (before or 0) - start
    if steps < 1:
        return ""
    return f": {most}{steps} step{'s are' if steps > 1 else ' is'} done again"


def chosen(job: Job, told: Told) -> Choice:
    """Where its ranks would start now."""
    return best(known_points.told(job, told), asked=job.granted)


def hindrance(job: Job, told: Told, point: RestorePoint | None) -> str:
    """Why its ranks may not start from `point` by themselves, or not yet; "" where they may.

    A first start and a job without a store have nothing to wait for, unless it is to go on from
    what an earlier job left, which its history begins with. A step in all ranks' memory
    that is not behind what was stored is as good as any, whatever the store has to say.
    """
    if not (job.history and job.plan.task.store_url) or job.granted == 0:
        return ""
    if job.granted is not None:
        missing = point is None
        return f"step {job.granted}, which a person asked for, is not found" if missing else ""
    behind = _behind(job, told, point)
    if point is not None and not behind and (point.where is Where.MEMORY or not looking(job, told)):
        return ""
    return _unknown(job, told) or behind or _all_damaged(job, point) or _not_begun(job, point)


def looking(job: Job, told: Told) -> str:
    """Why it is not known yet what the store holds; "" where its host has told the whole."""
    return told.get(job.host, Quiet()).looking


def _behind(job: Job, told: Told, point: RestorePoint | None) -> str:
    """The step that was acknowledged, where `point` is behind it."""
    damaged = {(one.step, one.epoch) for quiet in told.values() for one in quiet.damaged}
    usable = (stored for stored in known_points.in_store(job) if stored.usable)
    steps = [stored.step for stored in usable if stored.saved not in damaged]
    last = max(steps, default=0)
    if last <= (point.step if point else 0):
        return ""
    shown = f"only step {point.step} is found now" if point else "no step is found now"
    return f"step {last} was in its store, and {shown}"


def _unknown(job: Job, told: Told) -> str:
    last = known_points.newest_stored(job)
    had = "" if last is None else f", where step {last.step} was"
    error = store_error(told)
    if error and job.plan.task.begin_from and not job.attempt:
        return error
    if error:
        return f"no step is in memory and the store cannot be read{had}: {error}"
    if state := looking(job, told):
        return f"its checkpoint store{had} is still being searched: {state}"
    return ""


def _all_damaged(job: Job, point: RestorePoint | None) -> str:
    if point is not None or not known_points.in_store(job):
        return ""
    return "every checkpoint in its store is damaged"


def _not_begun(job: Job, point: RestorePoint | None) -> str:
    begin_from = job.plan.task.begin_from
    if point is not None or job.attempt or not begin_from:
        return ""
    return f"no checkpoint that it could begin from is found in {begin_from}"


def store_error(told: Told) -> str:
    """Why checkpoints in the store may be unknown; "" where they are known."""
    return next((q.store_error for q in told.values() if q.store_error), "")

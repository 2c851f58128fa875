"""From which step a job goes on: what every rank has in memory, else the store, else the beginning.

Called by `epochs` when all nodes are quiet. Pure. A snapshot counts only up to the end of the epoch
that wrote it: an epoch ends, in the journal, at the step from which the next one started. So what a
lost node saved later, or what a rolled-back line of training left in a store, is never taken.

What the store holds has three values: known steps, known to be none, and unknown. Unknown is never
taken for none, and no job goes behind a checkpoint that its store had acknowledged but by a
person's word: until then it waits.
"""

from collections.abc import Iterable

from holdfast.driver.core.model import Job, Lived, Quiet
from holdfast.driver.core.orders import ranks_of
from holdfast.protocol.messages import Restore, Stored

Point = tuple[int, int]
"""(step, epoch that wrote it)"""

KEPT = 8
"""Acknowledged checkpoints that a job remembers at most: where the newest is damaged an older one
takes its place, and more than a few damaged in a row are no accident that waiting cures."""


def reached(job: Job) -> int | None:
    """The step that the epoch before completed, by the snapshots that are left of it.

    It is the least of the ranks' newest: a rank seals a step only when its peers took part in it.
    None where nothing is left.
    """
    if not job.history:
        return None
    newest: dict[int, int] = {}
    for quiet in job.quiet.values():
        for snapshot in quiet.snapshots:
            if snapshot.epoch == job.history[-1].epoch:
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


def agree(job: Job) -> Restore | None:
    """The newest point that all can start from; None: from the beginning."""
    return max(_points(job), key=_age, default=None)


def chosen(job: Job) -> Restore | None:
    """Where its ranks would start now: where a person said, else the newest point of all."""
    if job.granted is None:
        return agree(job)
    if job.granted == 0:
        return None
    asked = [point for point in _points(job) if point.step == job.granted]
    return max(asked, key=_age, default=None)


def told(point: Restore) -> str:
    """What ranks start from, for people."""
    kinds = {"memory": "the snapshot of step {} in memory"}
    return kinds.get(point.source, "the checkpoint of step {} in the store").format(point.step)


def found(job: Job) -> tuple[int, ...]:
    """Steps that the job could start from, the newest first."""
    return tuple(sorted({point.step for point in _points(job)}, reverse=True))


def hindrance(job: Job, point: Restore | None) -> str:
    """Why its ranks may not start from `point` by themselves, or not yet; "" where they may.

    A first start and a job without a store have nothing to wait for. A step in all ranks' memory
    that is not behind what was stored is as good as any, whatever the store has to say.
    """
    if not (job.history and job.plan.task.store_url) or job.granted == 0:
        return ""
    if job.granted is not None:
        missing = point is None
        return f"step {job.granted}, which a person asked for, is not found" if missing else ""
    behind = _behind(job, point)
    if point is not None and not behind and (point.source == "memory" or not looking(job)):
        return ""
    return _unknown(job) or behind or _all_damaged(job, point)


def looking(job: Job) -> str:
    """Why it is not known yet what the store holds; "" where its host has told the whole."""
    return job.quiet.get(job.host, Quiet()).looking


def _behind(job: Job, point: Restore | None) -> str:
    """The step that was acknowledged, where `point` is behind it."""
    damaged = {stored for quiet in job.quiet.values() for stored in quiet.damaged}
    steps = [stored.step for stored in job.acknowledged if stored not in damaged]
    last = max(steps, default=0)
    if last <= (point.step if point else 0):
        return ""
    shown = f"only step {point.step} is found now" if point else "no step is found now"
    return f"step {last} was in its store, and {shown}"


def _unknown(job: Job) -> str:
    last = max((stored.step for stored in job.acknowledged), default=None)
    had = "" if last is None else f", where step {last} was"
    if error := store_error(job):
        return f"no step is in memory and the store cannot be read{had}: {error}"
    if state := looking(job):
        return f"its checkpoint store{had} is still being searched: {state}"
    return ""


def _all_damaged(job: Job, point: Restore | None) -> str:
    if point is not None or not job.acknowledged:
        return ""
    return "every checkpoint in its store is damaged"


def acknowledge(job: Job, stored: Iterable[Stored]) -> tuple[Stored, ...]:
    """What the store is known to have, with these: the newest, as many as it keeps."""
    ends = {lived.epoch: lived.end for lived in job.history}
    on_the_line = {one for one in stored if counts(ends, one.step, one.epoch)}
    known = sorted({*job.acknowledged, *on_the_line}, key=lambda one: (one.step, one.epoch))
    return tuple(known[-min(KEPT, max(1, job.plan.task.retention)) :])


def after_start(job: Job, step: int) -> tuple[Stored, ...]:
    """What stays acknowledged once ranks start from `step`."""
    return tuple(one for one in job.acknowledged if one.step <= step)


def written_s(job: Job, known: tuple[Stored, ...], at_s: float | None) -> float | None:
    """When the last of `known` was written; `at_s` where that is another than so far.

    None for one that was only found: nobody says when it was written.
    """
    return job.stored_s if known[-1:] == job.acknowledged[-1:] else at_s


def _points(job: Job) -> list[Restore]:
    """Everything that ranks could start from."""
    ends = {lived.epoch: lived.end for lived in job.history}
    spoiled = set(job.spoiled)
    memory = [
        Restore(source="memory", step=step, epoch=epoch)
        for step, epoch in _in_memory(job)
        if counts(ends, step, epoch)
    ]
    store = [
        Restore(source="store", step=stored.step, epoch=stored.epoch)
        for quiet in job.quiet.values()
        for stored in quiet.stored
        if counts(ends, stored.step, stored.epoch)
    ]
    return [point for point in memory + store if point not in spoiled]


def _age(point: Restore) -> tuple[int, bool, int]:
    return point.step, point.source == "memory", point.epoch


def store_error(job: Job) -> str:
    """Why checkpoints in the store may be unknown; "" where they are known."""
    return next((q.store_error for q in job.quiet.values() if q.store_error), "")


def counts(ends: dict[int, int | None], step: int, epoch: int) -> bool:
    """True where a save of `epoch` at `step` lies on the line that is being continued."""
    if epoch not in ends:
        return False
    end = ends[epoch]
    return end is None or step <= end


def close_epochs(history: Iterable[Lived], step: int) -> tuple[Lived, ...]:
    """The history once a new epoch starts from `step`: what came later counts no more."""
    return tuple(
        Lived(epoch=lived.epoch, end=step if lived.end is None else min(lived.end, step))
        for lived in history
    )


def _in_memory(job: Job) -> set[Point]:
    """Points that every rank has sealed on the node where it will run."""
    common: set[Point] | None = None
    for node in job.places:
        held = job.quiet.get(node, Quiet()).snapshots
        for rank in ranks_of(job, node):
            points = {(s.step, s.epoch) for s in held if s.rank == rank}
            common = points if common is None else common & points
            if not common:
                return set()
    return common or set()

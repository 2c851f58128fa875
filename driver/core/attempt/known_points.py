"""A job's restore points: those that nodes tell of once they are quiet, and what the job remembers.

Called by `restore_step`, and by whoever hears of a save or judges one. Pure. The job remembers what
its store is known to have, which was acknowledged to people, and what is tainted; what is in memory
its nodes tell anew in each epoch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from holdfast.driver.core.state.model import Attempt, Job
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.state.restore_point import (
    RestorePoint,
    Sealed,
    Status,
    Tainted,
    Verified,
    Where,
    Whole,
)
from holdfast.protocol.messages import Stored

Told = Mapping[str, Quiet]
"""What each node of the job told in this epoch, by its name."""

Known = tuple[RestorePoint, ...]
"""What a job remembers, the newest last."""

KEPT = 8
"""Acknowledged checkpoints that a job remembers at most: where the newest is damaged an older one
takes its place, and more than a few damaged in a row are no accident that waiting cures."""

# ---------------------------------------------------------------- what is told


def told(job: Job, quiet: Told) -> list[RestorePoint]:
    """All that ranks could start from, or could but for its status. Damage that a look at the store
    shows counts until the next look; what is remembered counts before what is told else.
    """
    known = {_name(point): point for point in job.points}
    found = [*_in_memory(job, quiet), *_in_store(job, quiet)]
    return [
        point
        if isinstance(point.status, Tainted)
        else known.get(_name(point)) or _judged(point, job.points, job.spoiled)
        for point in found
    ]


def _judged(
    point: RestorePoint, known: Iterable[RestorePoint], spoiled: Tainted | None
) -> RestorePoint:
    """Tainted, where what ranks died of from another one may be in it, too, or all of that time is
    spoiled."""
    if spoiled is not None and spoiled.after is not None and point.step > spoiled.after:
        return replace(point, status=replace(spoiled, after=None))
    for each in known:
        after = each.status.after if isinstance(each.status, Tainted) else None
        if after is not None and after < point.step <= each.step:
            why = f"ranks that started from step {each.step}, near it, died at once"
            return replace(point, status=replace(each.status, why=why, after=None))
    return point


def _name(point: RestorePoint) -> tuple[Where, tuple[int, int]]:
    return point.where, point.saved


def _in_memory(job: Job, quiet: Told) -> Iterator[RestorePoint]:
    for (step, epoch), ranks in _ranks_having(job, quiet).items():
        if (attempt := of_line(job, step, epoch)) is not None:
            status = Whole() if ranks == job.world_size else Sealed()
            yield _point(attempt, (step, epoch), Where.MEMORY, status)


def _ranks_having(job: Job, quiet: Told) -> Counter[tuple[int, int]]:
    """How many ranks have sealed each step, of each epoch, on the node where they will run, or have
    it on another one that gives it to them.
    """
    copies = {each for told in quiet.values() if told.peer_port for each in told.snapshots}
    having: Counter[tuple[int, int]] = Counter()
    for place, node in enumerate(job.places):
        own = job.layout.ranks_at(place)
        held = set(quiet.get(node, Quiet()).snapshots)
        if job.plan.task.peer_interval_steps:
            held |= copies
        having.update((each.step, each.epoch) for each in held if each.rank in own)
    return having


def _in_store(job: Job, quiet: Told) -> Iterator[RestorePoint]:
    shown = {one for each in quiet.values() for one in each.stored}
    damaged = {one for each in quiet.values() for one in each.damaged} - shown
    for one in shown | damaged:
        if (attempt := of_line(job, one.step, one.epoch)) is not None:
            status = Tainted(why="it is damaged") if one in damaged else Whole()
            yield _point(attempt, (one.step, one.epoch), Where.STORE, status)


def _point(
    attempt: Attempt,
    saved: tuple[int, int],
    where: Where,
    status: Status,
    written_s: float | None = None,
) -> RestorePoint:
    step, epoch = saved
    return RestorePoint(
        step=step,
        epoch=epoch,
        where=where,
        status=status,
        attempt=attempt.number,
        layout=attempt.layout,
        version=attempt.version,
        written_s=written_s,
    )


# ---------------------------------------------------------------- what is remembered


def in_store(job: Job) -> Known:
    """What its store is known to have: it was acknowledged, or found there."""
    return tuple(point for point in job.points if point.where is Where.STORE)


def newest_stored(job: Job) -> RestorePoint | None:
    return next(reversed(in_store(job)), None)


def acknowledge(job: Job, stored: Iterable[Stored], *, written_s: float | None = None) -> Known:
    """With these, which its store has: the newest, as many as it keeps.

    `written_s`: when that was told; None where they are only found, and nobody says when they were
    written.
    """
    known = {point.saved for point in in_store(job)}
    told = {(one.step, one.epoch) for one in stored} - known
    new = [
        _judged(_point(attempt, saved, Where.STORE, Whole(), written_s), job.points, job.spoiled)
        for saved in told
        if (attempt := of_line(job, *saved)) is not None
    ]
    if not new:
        return job.points
    most = min(KEPT, max(1, job.plan.task.retention))
    kept = _in_order([*in_store(job), *new])[-most:]
    others = (each for each in job.points if isinstance(each.status, Tainted) and each not in kept)
    return _in_order([*kept, *others])


def older(job: Job) -> Known:
    """What could be used and is older than where its ranks started."""
    start = job.restore
    return tuple(each for each in job.points if start and each.usable and each.step < start.step)


def after_start(job: Job, step: int) -> Known:
    """Once ranks start from `step`: what is later counts no more."""
    return tuple(point for point in job.points if point.step <= step)


def taint(job: Job, point: RestorePoint, why: str, now: float, after: int) -> Known:
    """It is not to be used again, nor what was saved after that step, up to it."""
    tainted = replace(point, status=Tainted(why=why, since_s=now, after=after))
    others = (each for each in job.points if _name(each) != _name(point))
    return _in_order([tainted, *(_judged(each, [tainted], None) for each in others)])


def spoil(job: Job, spoiled: Tainted) -> Known:
    """What was saved after that step is not to be used again, whatever is told of it later."""
    return tuple(_judged(each, (), spoiled) for each in job.points)


def sound(job: Job, step: int) -> bool:
    """Whether something that was saved up to `step` is known to be there."""
    return any(each.usable and each.step <= step for each in job.points)


def verify(job: Job, point: RestorePoint) -> Known:
    """Ranks that started from it got on; where it is remembered that is noted."""
    return tuple(
        replace(each, status=Verified()) if _name(each) == _name(point) else each
        for each in job.points
    )


def _in_order(known: Iterable[RestorePoint]) -> Known:
    return tuple(sorted(known, key=lambda point: point.saved))


# ---------------------------------------------------------------- the line of training


def of_line(job: Job, step: int, epoch: int) -> Attempt | None:
    """The attempt that saved this, where it lies on the line that is being continued. Whose epochs
    were that were lost is not known: what a job has by its name is its own."""
    attempt = next((each for each in job.history if each.has(epoch)), None)
    on_line = attempt is not None and (attempt.end is None or step <= attempt.end)
    return attempt if on_line else None


def is_newest(job: Job, epoch: int) -> bool:
    """Whether it is of the newest attempt, or of what may have followed that and is lost."""
    return any(each.end is None and each.has(epoch) for each in job.history)


def close_epochs(history: Iterable[Attempt], step: int) -> tuple[Attempt, ...]:
    """The history once a new epoch starts from `step`: what came later counts no more."""
    return tuple(
        replace(attempt, end=step if attempt.end is None else min(attempt.end, step))
        for attempt in history
    )

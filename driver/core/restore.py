"""From which step a job goes on: what every rank has in memory, else the store, else the beginning.

Called by `epochs` when all nodes are quiet. Pure. A snapshot counts only up to the end of the epoch
that wrote it: an epoch ends, in the journal, at the step from which the next one started. So what a
lost node saved later, or what a rolled-back line of training left in a store, is never taken.
"""

from collections.abc import Iterable

from holdfast.driver.core.model import Job, Lived, Quiet
from holdfast.driver.core.orders import ranks_of
from holdfast.protocol.messages import Restore

Point = tuple[int, int]
"""(step, epoch that wrote it)"""


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


def agree(job: Job) -> Restore | None:
    """The newest point that all can start from; None: from the beginning."""
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
    whole = [point for point in memory + store if point not in spoiled]
    return max(whole, key=lambda p: (p.step, p.source == "memory", p.epoch), default=None)


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

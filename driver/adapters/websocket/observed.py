"""From what an executor observes to what the core must know: the difference of two reports. Pure.

Called by `sessions` for each `Observed`. An executor reports all it sees, again and again; events
are what is new in it. After a reconnect everything is new once more: the core wants levels, and
takes a repeated event for what it is. A report of an older epoch is no mistake: it was under way
when the epoch ended. Its events name that epoch, and the core ignores them without an answer.
"""

from collections.abc import Callable, Iterable

from holdfast.driver.adapters.websocket.link import Rejected
from holdfast.driver.core.events import (
    AnyEvent,
    CheckpointStored,
    DiagnosticEnded,
    NodeQuiet,
    RanksExited,
    RanksRunning,
    RendezvousLost,
    RendezvousReady,
)
from holdfast.protocol.messages import Desired, Hello, Observed, RankStatus

BLANK = Observed(node="", incarnation="", sequence=-1, generation=-1, epoch=-1)
"""Before the first report of a connection."""


def check_epoch(seen: Observed, told: Desired | None, hello: Hello) -> None:
    """Raise `Rejected` for an epoch that nobody can have given the node.

    `told` is what the node was told last, or None where this driver has told it nothing yet: then
    only a negative one is wrong. What the node had followed before is in its `hello`.
    """
    if seen.epoch < 0:
        raise Rejected("Observed.epoch", f"{seen.epoch} is negative", "Send the one of Desired.")
    if told is not None and seen.epoch > (newest := max(told.epoch, hello.epoch)):
        raise Rejected(
            "Observed.epoch",
            f"{seen.epoch} is newer than {newest}, the newest that this node was given",
            "Send the one of Desired.",
        )


def news(
    before: Observed,
    seen: Observed,
    told: Desired | None,
    *,
    completed_step: Callable[[str], int | None],
    saved_steps: Callable[[str], int],
) -> list[AnyEvent]:
    """What is new in `seen`, in the order in which it happened on the node.

    `told` is what the node was told last; `completed_step` gives the last step that all ranks of a
    job had completed, `saved_steps` how many its script has saved, as the detectors know them.
    """
    job = seen.job
    events: list[AnyEvent] = []
    if job is not None:
        if _follows(before) != _follows(seen):
            before = BLANK
        events += _quiet(job, before, seen, told)
        events += _stored(job, before, seen)
        events += _store(job, before, seen, told)
        events += _running(job, before, seen, told)
        events += _exited(job, before, seen, completed_step, saved_steps)
    events += _diagnosed(before, seen, told)
    return events


def _follows(seen: Observed) -> tuple[str | None, int, int, int]:
    """What it was told: who is told anew says anew all that is so, for it may not have been heard,
    see `parking`."""
    return seen.job, seen.epoch, seen.attempt, seen.generation


def _quiet(job: str, before: Observed, seen: Observed, told: Desired | None) -> Iterable[NodeQuiet]:
    """Quiet counts once the node follows an order without ranks: then what it holds is final."""
    if not _is_quiet(seen, told):
        return
    if before.quiet and _holds(before) == _holds(seen):
        return
    yield NodeQuiet(
        job=job,
        epoch=seen.epoch,
        node=seen.node,
        killed=seen.killed,
        snapshots=seen.snapshots,
        peer_port=seen.peer_port,
        stored=seen.stored,
        looking=seen.looking,
        preparing=seen.preparing,
        warming=_warming(seen),
        damaged=seen.damaged,
        store_error=seen.store_error,
        agent_silent=seen.agent_silent,
    )


def _is_quiet(seen: Observed, told: Desired | None) -> bool:
    if told is None or told.seats or (told.job, told.epoch) != (seen.job, seen.epoch):
        return False
    return seen.quiet and seen.generation == told.generation


def _holds(seen: Observed) -> tuple[object, ...]:
    store = seen.stored, seen.looking, seen.preparing, seen.damaged, seen.store_error
    return seen.generation, seen.snapshots, seen.peer_port, store, seen.agent_silent, _warming(seen)


def _warming(seen: Observed) -> bool:
    return seen.launcher == "warming"


def _stored(job: str, before: Observed, seen: Observed) -> Iterable[CheckpointStored]:
    """Told before the ends of ranks. The node of rank 0 alone writes manifests."""
    step = seen.persisted_step
    if step is None or step == before.persisted_step or all(r.rank != 0 for r in seen.ranks):
        return
    yield CheckpointStored(job=job, epoch=seen.epoch, node=seen.node, step=step)


def _store(
    job: str, before: Observed, seen: Observed, told: Desired | None
) -> Iterable[RendezvousReady | RendezvousLost]:
    if seen.rendezvous is not None and seen.rendezvous != before.rendezvous:
        yield RendezvousReady(job=job, epoch=seen.epoch, node=seen.node, rendezvous=seen.rendezvous)
    if _store_lost(seen, told) and not _store_lost(before, told):
        yield RendezvousLost(job=job, epoch=seen.epoch, node=seen.node)


def _store_lost(seen: Observed, told: Desired | None) -> bool:
    """Whether ranks run on the store's node, and the store does not."""
    if told is None or not told.host_rendezvous or (told.job, told.epoch) != (seen.job, seen.epoch):
        return False
    return seen.rendezvous is None and any(each.state != "exited" for each in seen.ranks)


def _running(
    job: str, before: Observed, seen: Observed, told: Desired | None
) -> Iterable[RanksRunning]:
    if told is None or (told.job, told.epoch) != (job, seen.epoch):
        return
    own = {seat.rank for seat in told.seats if seat.node == seen.node}
    if own and own <= _started(seen) and not own <= _started(before):
        yield RanksRunning(job=job, epoch=seen.epoch, node=seen.node)


def _started(seen: Observed) -> set[int]:
    return {each.rank for each in seen.ranks if each.state in ("running", "exited")}


def _exited(
    job: str,
    before: Observed,
    seen: Observed,
    completed_step: Callable[[str], int | None],
    saved_steps: Callable[[str], int],
) -> Iterable[RanksExited]:
    known = {each.rank for each in _exits(before)}
    new = tuple(each for each in _exits(seen) if each.rank not in known)
    if new:
        yield RanksExited(
            job=job,
            epoch=seen.epoch,
            node=seen.node,
            exits=new,
            step=completed_step(job),
            saved=saved_steps(job),
        )


def _exits(seen: Observed) -> list[RankStatus]:
    return sorted((each for each in seen.ranks if each.state == "exited"), key=lambda e: e.order)


def _diagnosed(before: Observed, seen: Observed, told: Desired | None) -> Iterable[DiagnosticEnded]:
    """A diagnosis has ended on the node once each of its orders has a result."""
    for diagnosis in sorted({order.id for order in told.diagnostics} if told else ()):
        ordered = {(o.test, o.round) for o in told.diagnostics if o.id == diagnosis}  # type: ignore[union-attr]
        results = tuple(each for each in seen.diagnostics if each.id == diagnosis)
        had = {(each.test, each.round) for each in before.diagnostics if each.id == diagnosis}
        if ordered <= {(each.test, each.round) for each in results} and not ordered <= had:
            yield DiagnosticEnded(node=seen.node, id=diagnosis, results=results)

"""A journal that was put back from a backup: executors have followed epochs that it never gave.

Called by `executors` when one connects. Pure. That the term is later than all of theirs the
loop has seen to. What entries were lost is not known; that their epochs are used up is, and that
what the newest of them saved is of the line that is to be continued.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.core.job.epochs import open_epoch
from holdfast.driver.core.recovery import ladder
from holdfast.driver.core.state.model import Attempt, Fault, Job, Phase
from holdfast.driver.core.state.node import Awaited, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight


def learn(turn: Turn, before: Node, event: ExecutorConnected) -> None:
    """Go on from the largest epoch that anyone knows. `before`: the node as the journal had it."""
    if not _knows_more(before, event):
        return
    known, turn.epoch = turn.epoch, max(turn.epoch, event.epoch)
    node = turn.nodes[event.node]
    epoch = max(node.told.epoch, event.epoch)
    turn.node(event.node, told=replace(node.told, epoch=epoch))
    lacks = f"gave none after {known}" if event.epoch > known else "does not have all of that"
    turn.say(
        f"{event.node} has followed order {event.epoch}, and the journal {lacks}: "
        "it was put back from a backup"
    )
    job = turn.jobs.get(node.job or "")
    if job is not None and event.epoch and job.epoch <= event.epoch:
        _recover(turn, _with(turn, job, event), event)


def _knows_more(before: Node, event: ExecutorConnected) -> bool:
    """Whether it has followed orders that the journal does not have: of a later epoch than the node
    was ever told, or as many as a driver that has just taken over has counted up to itself.
    """
    if event.epoch > before.told.epoch:
        return True
    awaited = isinstance(before.link, Awaited) and before.told.generation > 0
    return awaited and event.generation >= before.told.generation


def _with(turn: Turn, job: Job, event: ExecutorConnected) -> Job:
    """The job with what that epoch saved, which is of the line that is to be continued."""
    if any(attempt.epoch == event.epoch for attempt in job.history):
        return job
    lost = Attempt(epoch=event.epoch, version=job.version.number)
    return turn.job(job.name, history=(*job.history, lost))


def _recover(turn: Turn, job: Job, event: ExecutorConnected) -> None:
    """Whatever runs, it is not what the journal says."""
    if not job.seated:
        if job.epoch and job.phase is not Phase.ALLOCATING:
            open_epoch(turn, job.name)
        return
    text = f"it has followed order {event.epoch}, and the journal says {job.epoch}"
    fault = Fault(
        kind=Kind.JOURNAL_PUT_BACK,
        weight=Weight.RESTART,
        blame=Blame.INFRASTRUCTURE,
        summary="the journal was put back from a backup",
        evidence=(Evidence(source=f"executor of {event.node}", text=text),),
    )
    ladder.recover(turn, job.name, fault)

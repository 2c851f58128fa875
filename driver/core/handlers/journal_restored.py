"""A journal that was put back from a backup: executors have followed epochs that it never gave.

Called by `executors` when one connects. Pure. That the term is later than all of theirs the
loop has seen to. What entries were lost is not known; that their epochs are used up is, and that
what the newest of them saved is of the line that is to be continued.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.core.faults.fault import by_executor, infrastructure
from holdfast.driver.core.job import epochs
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Fault, Job, Phase
from holdfast.driver.core.state.node import Awaited, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind, Weight


def note(turn: Turn, before: Node, event: ExecutorConnected) -> None:
    """Give no epoch that anyone may have followed. `before`: the node as it was known."""
    if not _knows_more(before, event):
        return
    node, known = turn.nodes[event.node], turn.epoch
    epoch = max(node.told.epoch, event.epoch)
    turn.set_told(event.node, replace(node.told, epoch=epoch))
    lacks = f"gave none after {known}" if event.epoch > known else "does not have all of that"
    turn.say(
        f"{event.node} has followed order {event.epoch}, and the journal {lacks}: "
        "it was put back from a backup"
    )
    if event.epoch > known:
        epochs.leave_out(turn, event.epoch + epochs.LOST, list(turn.jobs))
    elif event.epoch and node.job in turn.jobs:
        epochs.note_lost(turn, turn.jobs[node.job], event.epoch, event.epoch)


def act(turn: Turn, before: Node, event: ExecutorConnected) -> None:
    """Go on beyond the largest epoch that anyone knows."""
    if not _knows_more(before, event):
        return
    theirs = [job for job in turn.jobs.values() if job.name == before.job or _is_on_its_way(job)]
    names = [job.name for job in theirs if job.epoch <= event.epoch]
    for name in turn.each_job(names, parked=True):
        _recover(turn, turn.jobs[name], event)


def _is_on_its_way(job: Job) -> bool:
    """To ranks of an epoch that somebody else may have followed."""
    return not (job.seated or job.finished) and job.epoch > 0


def _knows_more(before: Node, event: ExecutorConnected) -> bool:
    """Whether it has followed orders that the journal does not have: of a later epoch than the node
    was ever told, or as many as a driver that has just taken over has counted up to itself.
    """
    if event.epoch > before.told.epoch:
        return True
    awaited = isinstance(before.link, Awaited) and before.told.generation > 0
    return awaited and event.generation >= before.told.generation


def _recover(turn: Turn, job: Job, event: ExecutorConnected) -> None:
    """Whatever runs, it is not what the journal says."""
    text = f"it has followed order {event.epoch}, and the journal says {job.epoch}"
    summary, told = "the journal was put back from a backup", by_executor(event.node, text)
    fault = infrastructure(Kind.JOURNAL_PUT_BACK, Weight.RESTART, summary, None, told)
    if job.parked:
        turn.job(job.name, held=fault)  # until it is looked at again
    else:
        begin_anew(turn, job, fault)


def begin_anew(turn: Turn, job: Job, fault: Fault) -> None:
    """In an epoch that nobody has followed."""
    if job.seated:
        next_step.recover(turn, job.name, fault)
    elif job.epoch and job.phase is not Phase.ALLOCATING:
        epochs.open_epoch(turn, job.name)

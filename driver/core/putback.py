"""A journal that was put back from a backup: executors have followed epochs that it never gave.

Called by `executors` when one connects. Pure. That the term is later than all of theirs the
loop has seen to. What entries were lost is not known; that their epochs are used up is, and that
what the newest of them saved is of the line that is to be continued.
"""

from msgspec.structs import replace

from holdfast.driver.core import ladder
from holdfast.driver.core.events import ExecutorConnected
from holdfast.driver.core.model import Attempt, Fault, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight


def learn(turn: Turn, event: ExecutorConnected) -> None:
    """Go on from the largest epoch that anyone knows."""
    if event.epoch <= turn.epoch:
        return
    known, turn.epoch = turn.epoch, event.epoch
    told = replace(turn.nodes[event.node].told, epoch=event.epoch)
    node = turn.node(event.node, told=told)
    turn.say(
        f"{event.node} has followed order {event.epoch}, and the journal gave none after {known}: "
        "it was put back from a backup"
    )
    if node.job is not None:
        job = turn.jobs[node.job]  # on its way to ranks, too: what they saved meanwhile counts
        lost = Attempt(epoch=event.epoch, version=job.version.number)
        job = turn.job(node.job, history=(*job.history, lost))
        if job.seated:
            _recover(turn, job, event)


def _recover(turn: Turn, job: Job, event: ExecutorConnected) -> None:
    """Whatever runs, it is not what the journal says."""
    text = f"it has followed order {event.epoch}, and the journal says {job.epoch}"
    fault = Fault(
        kind=Kind.JOURNAL_PUT_BACK,
        weight=Weight.RESTART,
        blame=Blame.INFRASTRUCTURE,
        summary="the journal was put back from a backup",
        evidence=(Evidence(source=f"executor of {event.node}", text=text),),
    )
    ladder.recover(turn, job.name, fault)

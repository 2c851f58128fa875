"""Jobs in whose affairs a defect of ours was met: left alone for a while, then looked at again.

Called where `decide` raised, and by ticks. Pure. What runs goes on meanwhile, and what is heard of
it is not listened to: so it is told once more, and who was waited for has so much longer.
"""

from holdfast.driver.core import exams
from holdfast.driver.core.handlers import journal_restored, node_loss
from holdfast.driver.core.handlers.stalls import Later
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Fault, Job, Purpose
from holdfast.driver.core.state.node import Backoff, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Kind, Weight

FIRST_S = 60.0
"""Until who met a defect is looked at again: what is known of him may be another thing by then."""

LONGEST_S = 3600.0
"""However often it was met. A look costs one line of the journal, and of the log one traceback."""


def longer(known: Backoff | None, now: float) -> Backoff:
    """Twice as long as the last time, unless it went well for as long as that since."""
    again = known is not None and now < known.until_s + known.wait_s
    wait_s = min(LONGEST_S, 2 * known.wait_s) if known is not None and again else FIRST_S
    return Backoff(until_s=now + wait_s, wait_s=wait_s)


def left_alone(job: Job, now: float) -> bool:
    """Whether it is parked, and not to come back yet."""
    return bool(job.parked) and job.backoff is not None and job.backoff.until_s > now


def park(turn: Turn, name: str, why: str) -> None:
    """Do nothing for the job for a while. What runs goes on."""
    job = turn.jobs[name]
    exams.drop(turn, job.exam)
    for standby in job.standbys:  # it would not be told what else is to be run
        exams.leave(turn, standby, but=Purpose.DIAGNOSIS)
    backoff = longer(job.backoff, turn.now)
    turn.job(name, parked=why, backoff=backoff)
    turn.say(f"{name} is parked: {why}. It is looked at again in {backoff.wait_s:g} s", name)


def come_back(turn: Turn, job: Job) -> None:
    """Look at the job again, as it is by what its nodes tell of it now."""
    since_s = job.since_s if job.backoff is None else job.backoff.until_s - job.backoff.wait_s
    turn.job(job.name, parked="")
    turn.say(f"{job.name} is looked at again", job.name)
    later = Later(turn, turn.now - since_s)
    later.job(turn.jobs[job.name])
    turn.resend.update(dict.fromkeys(job.members))
    for name in turn.each_node(job.members):
        later.held(turn.nodes[name])
        node_loss.confirm(turn, name)
    _begin_anew(turn, turn.jobs[job.name])


def _begin_anew(turn: Turn, job: Job) -> None:
    """Ranks that were lost meanwhile, with a node that was left or an executor that died, are told
    of by nobody any more; nor are those of which the journal does not know."""
    if job.held is not None and job.held.kind is Kind.JOURNAL_PUT_BACK:
        journal_restored.begin_anew(turn, job, job.held)
        return
    seated = dict.fromkeys(seat.node for seat in job.seats)
    lost = [name for name in seated if _has_lost(turn.nodes.get(name), job)]
    if not lost:
        return
    fault = Fault(
        kind=Kind.EXECUTOR_LOST,
        weight=Weight.RESTART,
        blame=Blame.INFRASTRUCTURE,
        summary=f"{job.name} lost its ranks on {', '.join(lost)} while it was parked",
    )
    next_step.recover(turn, job.name, fault)


def _has_lost(node: Node | None, job: Job) -> bool:
    """Whether the job has lost what ran there, and nothing followed. However often it came back in
    vain: else it would have gone to another phase since."""
    if node is None or node.name not in job.places:
        return True
    renewed_s = node.held.renewed_s if node.held is not None else None
    return renewed_s is not None and renewed_s >= job.since_s

"""A defect of ours, met while deciding: in whose affairs that was is left alone for a while, then
looked at again, and the others go on.

Called by `driver.journal.draft` where a decision raised, and by ticks. Pure. What runs goes on
meanwhile, and what is heard of it is not listened to: so it is told once more, and who was waited
for has so much longer.
"""

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.faults.fault import infrastructure
from holdfast.driver.core.handlers import journal_restored, node_loss
from holdfast.driver.core.handlers.stalls import Later
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Job, Purpose, State
from holdfast.driver.core.state.node import Backoff, Node, Source, Trusted
from holdfast.driver.core.turn import Decision, Subject, Turn
from holdfast.protocol.faults import Kind, Weight

FIRST_S = 60.0
"""Until who met a defect is looked at again: what is known of him may be another thing by then."""

LONGEST_S = 3600.0
"""However often it was met. A look costs one line of the journal, and of the log one traceback."""


def leave_alone(state: State, at: Subject, why: str, now: float, policy: Policy) -> Decision | None:
    """The job is parked, or what is due of the node put off; None where neither can be done."""
    turn = Turn(state, now, policy)
    job = state.jobs.get(at.job or "")
    if job is not None and not left_alone(job, now):
        park(turn, job.name, why)
    elif at.node in state.nodes:
        _put_off(turn, at.node or "", why)
    return turn.close() if turn.touched_jobs or turn.touched_nodes else None


def longer(known: Backoff | None, now: float) -> Backoff:
    """Twice as long as the last time, unless it went well for as long as that since."""
    again = known is not None and now < known.until_s + known.wait_s
    wait_s = min(LONGEST_S, 2 * known.wait_s) if known is not None and again else FIRST_S
    return Backoff(until_s=now + wait_s, wait_s=wait_s)


def left_alone(job: Job, now: float) -> bool:
    """Whether it is parked, and not to come back yet."""
    return bool(job.parked) and job.backoff is not None and job.backoff.until_s > now


def _put_off(turn: Turn, node: str, why: str) -> None:
    """Look at nothing of this node's that is due, for a while; whatever runs there goes on."""
    known = turn.nodes[node]
    backoff = longer(known.backoff, turn.now)
    later_s = backoff.until_s
    rest, out = known.against.get(Source.REST), known.trust
    if _due(turn, known.silent_check_s):
        turn.look_at_silence(node, later_s)
    if _due(turn, known.retry_s):
        turn.set_retry(node, later_s)
    if rest is not None and _due(turn, rest.until_s):
        turn.object_to(node, Source.REST, replace(rest, until_s=later_s))
    if not isinstance(out, Trusted) and _due(turn, out.exam_s):
        turn.set_trust(node, replace(out, exam_s=later_s))
    exam = turn.exams.get(known.exam or "")
    if exam is not None and _due(turn, exam.until_s):
        exams.later(turn, exam, later_s)
    if turn.touched_nodes:  # else nothing of it was due
        turn.set_backoff(node, backoff)
        turn.say(f"{node} is looked at again in {backoff.wait_s:g} s: {why}")


def _due(turn: Turn, at_s: float | None) -> bool:
    return at_s is not None and at_s <= turn.now


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
    summary = f"{job.name} lost its ranks on {', '.join(lost)} while it was parked"
    fault = infrastructure(Kind.EXECUTOR_LOST, Weight.RESTART, summary)
    next_step.recover(turn, job.name, fault)


def _has_lost(node: Node | None, job: Job) -> bool:
    """Whether the job has lost what ran there, and nothing followed. However often it came back in
    vain: else it would have gone to another phase since."""
    if node is None or node.name not in job.places:
        return True
    renewed_s = node.held.renewed_s if node.held is not None else None
    return renewed_s is not None and renewed_s >= job.since_s

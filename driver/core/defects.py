"""A defect of ours, met while deciding: in whose affairs, and how the others go on without them.

Called by `driver.journal.draft` where a decision raised. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.decide import FACTS
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.handlers import parking
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Source, Trusted
from holdfast.driver.core.turn import Decision, Subject, Turn


def leave_alone(state: State, at: Subject, why: str, now: float, policy: Policy) -> Decision | None:
    """The job is parked, or what is due of the node put off; None where neither can be done."""
    turn = Turn(state, now, policy)
    job = state.jobs.get(at.job or "")
    if job is not None and not parking.left_alone(job, now):
        parking.park(turn, job.name, why)
    elif at.node in state.nodes:
        _put_off(turn, at.node or "", why)
    return turn.close() if turn.touched_jobs or turn.touched_nodes else None


def noted(state: State, event: AnyEvent, why: str, now: float, policy: Policy) -> Decision:
    """Of the event what is true of a node or a checkpoint, and nothing that follows from it."""
    turn = Turn(state, now, policy)
    if note := FACTS.get(type(event)):
        note(turn, event)
    turn.say(f"nothing {'else ' if turn.reasons else ''}follows: {why}")
    return turn.close()


def _put_off(turn: Turn, node: str, why: str) -> None:
    """Look at nothing of this node's that is due, for a while; whatever runs there goes on."""
    known = turn.nodes[node]
    backoff = parking.longer(known.backoff, turn.now)
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

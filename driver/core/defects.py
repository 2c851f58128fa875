"""A defect of ours, met while deciding: in whose affairs, and how the others go on without them.

Called by `driver.journal.draft` where `decide` raised. Pure: the same turn raises the same again.
"""

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.decide import Decision, follow
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Awaited, Broken, Source, Trusted
from holdfast.driver.core.turn import Subject, Turn

REST_S = 60.0
"""Until a node in whose affairs a defect was met is looked at again: its facts may be others."""


def met_at(state: State, event: AnyEvent, now: float, policy: Policy) -> Subject:
    """Whom the turn was looking at when it raised; nobody where it was between two of them."""
    turn = Turn(state, now, policy)
    try:
        follow(turn, event)
        turn.close()
    except Exception:  # noqa: BLE001 whatever it is, it was told already
        return turn.subject
    return Subject()


def put_off(state: State, node: str, why: str, now: float, policy: Policy) -> Decision:
    """Look at nothing of this node's that is due, for a while; whatever runs there goes on."""
    turn = Turn(state, now, policy)
    later_s = now + REST_S
    known = state.nodes[node]
    link, rest, out = known.link, known.against.get(Source.REST), known.trust
    if isinstance(link, Awaited | Broken) and _due(link.check_s, now):
        turn.node(node, link=replace(link, check_s=later_s))
    if _due(known.retry_s, now):
        turn.node(node, retry_s=later_s)
    if rest is not None and _due(rest.until_s, now):
        turn.object_to(node, Source.REST, replace(rest, until_s=later_s))
    if not isinstance(out, Trusted) and _due(out.exam_s, now):
        turn.node(node, trust=replace(out, exam_s=later_s))
    exam = state.exams.get(known.exam or "")
    if exam is not None and _due(exam.until_s, now):
        exams.later(turn, exam, later_s)
    turn.say(f"{node} is looked at again in {REST_S:g} s: {why}")
    return turn.close()


def _due(at_s: float | None, now: float) -> bool:
    return at_s is not None and at_s <= now

"""A defect of ours, met while deciding: in whose affairs, and how the others go on without them.

Called by `driver.journal.draft` where `decide` raised. Pure: the same turn raises the same again.
"""

from msgspec.structs import replace

from holdfast.driver.core.decide import Decision, follow
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.model import State
from holdfast.driver.core.policy import Policy
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
    for name in ("silent_check_s", "retry_s", "trial_s"):
        due_s = getattr(known, name)
        if due_s is not None and due_s <= now:
            turn.node(node, **{name: later_s})
    if 0 < known.rest_until_s <= now:
        turn.node(node, rest_until_s=later_s)
    for name in ("trial", "selftest"):
        test = getattr(known, name)
        if test is not None and test.until_s <= now:
            turn.node(node, **{name: replace(test, until_s=later_s)})
    turn.say(f"{node} is looked at again in {REST_S:g} s: {why}")
    return turn.close()

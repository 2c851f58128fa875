"""Taking nodes out of use, with a brake: never too many at once, fewest for silence alone.

Called by the ladder, the diagnosis and requests. Pure. Above the brake a node still leaves its job,
for it is of no use there, but it only rests: no quarantine, and it may come back by itself.
"""

from holdfast.driver.core.allocation import leave
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.turn import Turn


def may_evict(turn: Turn, *, silent: bool) -> bool:
    """True while the share of nodes evicted lately leaves room for one more."""
    since = turn.now - turn.policy.at_once_s
    lately = [n for n in turn.nodes.values() if n.evicted_s is not None and n.evicted_s > since]
    if len(lately) >= cap(turn, turn.policy.eviction_share):
        return False
    silenced = sum(1 for node in lately if node.silenced)
    return not silent or silenced < cap(turn, turn.policy.silence_share)


def cap(turn: Turn, share: float) -> int:
    """How many nodes this share is: at least one."""
    return max(1, int(len(turn.nodes) * share))


def evict(
    turn: Turn, node: str, incident: int, reason: str, *, silent: bool = False, asked: bool = False
) -> None:
    """Take the node from its job and, within the brake, out of use until a person restores it.

    `asked`: a person decided; no brake.
    """
    if turn.nodes[node].job is not None:
        leave(turn, node)
    if not asked and not may_evict(turn, silent=silent):
        rest_until_s = turn.now + turn.policy.rest_s
        turn.node(node, rest_until_s=rest_until_s, rest_why="too many were evicted lately")
        turn.say(f"{node} is left out, not evicted: too many were evicted lately")
        return
    turn.node(
        node,
        quarantined=True,
        marked=False,
        trusting=False,
        reason=reason,
        incident=incident,
        evicted_s=turn.now,
        silenced=silent,
    )
    turn.order(Distrust(node=node, incident=incident, reason=reason))
    turn.say(f"{node} is evicted")
    evicted = turn.incidents[incident].evicted
    turn.incident(incident, evicted=evicted if node in evicted else (*evicted, node))

"""Rules about the brake on evictions."""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World


def brake_holds(world: World, before: State, after: State, decision: Decision, now: float) -> None:
    """Written again, apart from the core: evictions within a minute, since a person looked; also
    of those that only left, for they were silent with others."""
    evicted = [
        name
        for name in decision.nodes
        if _went(before.nodes.get(name), after.nodes[name]) and name not in world.asked
    ]
    if not evicted:
        return
    out = [name for name in evicted if after.nodes[name].quarantined]
    require("the-brake-holds", not (before.brake.on and out), f"{out}: {before.brake.why}")
    since_s = max(now - 60, before.brake.at_s)
    lately = [node for node in after.nodes.values() if (node.record.evicted_s or 0.0) > since_s]
    total = len(
        {n.name for n in after.nodes.values() if _is_one(n, now)} | {n.name for n in lately}
    )
    require("never-too-many-evicted", len(lately) <= max(1, total // 2), evicted)  # people's, too
    silent = [node for node in lately if node.record.silenced]
    require("few-are-evicted-for-silence", len(silent) <= max(1, total // 5), evicted)


def _went(before: Node | None, after: Node) -> bool:
    quarantined = after.quarantined and not (before is not None and before.quarantined)
    silent = after.record.silenced and after.record.evicted_s is not None
    left = silent and (before is None or before.record.evicted_s != after.record.evicted_s)
    return quarantined or left


def _is_one(node: Node, now: float) -> bool:
    """Whether it counts among those that the brake's shares are of: it is there, held, or was."""
    went = node.gone_s is not None and node.gone_s > now - 60
    return node.present or node.job is not None or went


def brake_is_a_persons_to_release(before: State, after: State, event: e.AnyEvent) -> None:
    released = before.brake.on and not after.brake.on
    asked = isinstance(event, e.BrakeReleaseRequested)
    require("the-brake-is-released-by-people", asked or not released, after.brake.why)

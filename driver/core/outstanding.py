"""Effects that a state still wants done, for nobody saw them end. Pure.

Called when a driver takes over, and when a failed call is made again. All are idempotent: some may
have been done by the driver before.
"""

from holdfast.driver.core.effects import (
    Allocate,
    AnyEffect,
    Distrust,
    PutOnTrial,
    Release,
    Trust,
)
from holdfast.driver.core.model import Node, State


def outstanding(state: State) -> tuple[AnyEffect, ...]:
    """Every call to the cluster that has no outcome yet.

    What nodes are told is not among them: `DriverStarted` orders it anew, under the new term.
    """
    return tuple(effect for node in state.nodes.values() for effect in calls_for(node))


def calls_for(node: Node) -> list[AnyEffect]:
    """The calls that are open for one node."""
    calls: list[AnyEffect] = []
    if node.job is not None and not node.allocated:
        calls.append(Allocate(job=node.job, node=node.name))
    if node.trial is not None and node.kit is not None:  # there or not: asked again it is no other
        number, kit = node.trial.number, node.kit
        calls.append(PutOnTrial(job=kit.job, node=node.name, trial=number, spec=kit.spec))
    if node.releasing:
        calls.append(Release(node=node.name))
    if node.quarantined and not node.marked:
        calls.append(Distrust(node=node.name, incident=node.incident or 0, reason=node.reason))
    if node.trusting:
        calls.append(Trust(node=node.name))
    return calls

"""Effects that a state still wants done, for nobody saw them end. Pure.

Called when a driver takes over, and when a failed call is made again. All are idempotent: some may
have been done by the driver before.
"""

from holdfast.driver.core.effects import Allocate, AnyEffect, Distrust, HoldForExam, Release, Trust
from holdfast.driver.core.state.node import Lent, Node, Promised, Quarantined, Trusted


def calls_for(node: Node) -> list[AnyEffect]:
    """The calls to the cluster that are open for one node. What it is told is not among them: a new
    term orders that anew.
    """
    calls: list[AnyEffect] = []
    if isinstance(node.holding, Promised):
        calls.append(Allocate(job=node.holding.job, node=node.name))
    setup = None if isinstance(node.trust, Trusted) else node.trust.setup
    if isinstance(node.holding, Lent) and setup:  # asked again it is no other
        number = node.told.called
        calls.append(HoldForExam(job=setup.job, node=node.name, number=number, spec=setup.spec))
    if node.releasing:
        calls.append(Release(node=node.name))
    if node.quarantine and not node.quarantine.marked:
        calls.append(mark(node.name, node.quarantine))
    if node.trust == Trusted(unmark=True):
        calls.append(Trust(node=node.name))
    return calls


def mark(node: str, quarantine: Quarantined) -> Distrust:
    """Have the cluster keep work off a quarantined node."""
    return Distrust(node=node, incident=quarantine.incident or 0, reason=quarantine.why)

"""The nodes there are to give out, and of those that nobody can have: whose they are, or why not.

Made by `allocation` each time it gives out nodes, for all who wait together: a look along all nodes
for each of them would cost the most. Pure.
"""

from collections import Counter
from collections.abc import Iterable

from holdfast.driver.core.state.fit import COME_BACK, TOLD, Reason, Use, fit, fits
from holdfast.driver.core.state.model import Job
from holdfast.driver.core.state.node import Free, Node, Returning
from holdfast.driver.core.turn import Turn


def sound(node: Node, now: float) -> bool:
    """True where nothing is known against its use, whoever has it now."""
    return fits(Use.BORROW, None, node, now)


class Supply:
    """What one turn has to give out: `free`, those that are left."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.free = free_nodes(turn)
        self._others: Others | None = None

    def take_out(self, nodes: Iterable[str]) -> None:
        taken = set(nodes)
        self.free = [node for node in self.free if node not in taken]

    @property
    def others(self) -> "Others":
        """The nodes that are not to be had, looked along anew once one has changed."""
        if self._others is None or self._others.changes != self._turn.node_changes:
            self._others = Others(self._turn)
        return self._others


def free_nodes(turn: Turn) -> list[str]:
    """Nodes that a job may be given, those with an executor first, then by rack and name."""
    free = [node for node in turn.nodes.values() if isinstance(node.holding, Free)]  # most are not
    nodes = [node for node in free if fits(Use.PLACE, None, node, turn.now)]
    nodes.sort(key=lambda node: (not node.connected, node.rack, node.name))
    return [node.name for node in nodes]


class Others:
    """Nodes that are not to be had, as they are told of and counted."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.changes = turn.node_changes
        nodes, now = turn.nodes.values(), turn.now
        known = [node for node in nodes if not node.stranger]
        self.known = len(known)
        nobodys = ((node.name, why_not(None, node, now)) for node in known if node.job is None)
        self._barred = {name: why for name, why in nobodys if why is not None}
        self._had = [node for node in nodes if node.job is not None and sound(node, now)]
        self._owners = Counter(node.job for node in self._had)
        back = (node for node in nodes if isinstance(node.holding, Returning))
        self.coming = [node.name for node in back if sound(node, now)]

    def barred(self, job: Job) -> dict[str, Reason]:
        """Why nodes that nobody has are not the job's, those that come back last."""
        found = {**self._barred, **self._unfit(job)}
        return dict(sorted(found.items(), key=lambda each: each[1].bar in COME_BACK))

    def _unfit(self, job: Job) -> dict[str, Reason]:
        nodes = (self._turn.nodes[name] for name in job.unfit if name in self._turn.nodes)
        nobodys = (node for node in nodes if node.job is None and not node.stranger)
        reasons = ((node.name, why_not(job, node, self._turn.now)) for node in nobodys)
        return {name: why for name, why in reasons if why is not None}

    def owners(self, job: Job) -> Counter[str | None]:
        """Who has how many of the nodes that the job could have."""
        if not job.unfit:
            return self._owners
        now = self._turn.now
        return Counter(node.job for node in self._had if _could_have(job, node, now))


def _could_have(job: Job, node: Node, now: float) -> bool:
    return node.name not in job.unfit or fits(Use.BORROW, job, node, now)


def why_not(job: Job | None, node: Node, now: float) -> Reason | None:
    """Why a node that nobody has is not the job's; what passes by itself only where that is all."""
    if fits(Use.PLACE, job, node, now):
        return None
    reasons = [each for each in fit(Use.PLACE, job, node, now) if each.bar in TOLD]
    return min(reasons, key=lambda each: each.bar in COME_BACK, default=None)

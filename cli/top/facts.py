"""What `top` shows: the driver's answers as they were when it answered last. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.page import costs

Told = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """One look. `away`: why the driver did not answer; then the rest is of an earlier look."""

    at: str = ""
    away: str = ""
    alive: bool = True
    stale: str = ""
    jobs: Sequence[Told] = ()
    nodes: Sequence[Told] = ()
    job: str = ""
    ranks: Sequence[Told] = ()
    incidents: Sequence[Told] = ()  # of `job`, the newest first
    losses: Sequence[float] = ()

    def named(self, name: str) -> Told | None:
        """The job of this name."""
        return next((each for each in self.jobs if each["name"] == name), None)

    def node(self, name: str) -> Told | None:
        return next((each for each in self.nodes if each["name"] == name), None)


def evicting(facts: Facts, name: str) -> str:
    """What it costs to evict the node, in sentences, as far as the driver told."""
    node = facts.node(name)
    if node is None:
        return f"{name} is not there any more."
    job = facts.named(node["job"] or "")
    own = job is not None and job["name"] == facts.job
    incidents = facts.incidents[::-1] if own else None
    return " ".join(costs.of_eviction(node, job, facts.nodes, incidents))


def stopping(facts: Facts, name: str) -> str:
    """What it costs to stop the job."""
    job = facts.named(name)
    return " ".join(costs.of_stop(job)) if job else ""

"""What `top` shows: the driver's answers as they were when it answered last. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.driver.core.state.model import FINISHED
from holdfast.page.words import duration, ranks
from holdfast.protocol.counts import plural

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
    incidents: Sequence[Told] = ()
    losses: Sequence[float] = ()

    def named(self, name: str) -> Told | None:
        """The job of this name."""
        return next((each for each in self.jobs if each["name"] == name), None)

    def node(self, name: str) -> Told | None:
        return next((each for each in self.nodes if each["name"] == name), None)


def evicting(facts: Facts, name: str) -> str:
    """What it costs to evict the node, in sentences, as far as the driver told."""
    node = facts.node(name)
    job = facts.named(node["job"] or "") if node else None
    if node is None or job is None or job["phase"] in FINISHED:
        return f"Nothing of a job runs on {name}; it gets no work until somebody restores it."
    if node["standby"]:
        left = len(job["standbys"]) - 1
        return f"{name} is a standby of {job['name']}, which has {plural(left, 'other')}."
    return f"{_moves(facts, node, job)} {_behind(job)}"


def _moves(facts: Facts, node: Told, job: Told) -> str:
    free = sum(each["state"] == "free" for each in facts.nodes)
    where = "waits for a node, for none is free"
    if free:
        where = f"takes a free node ({free} there)"
    if job["standbys"]:
        where = f"takes {job['standbys'][0]}, its standby"
    some = ranks(node["ranks"]) or "its ranks"
    return f"All ranks of {job['name']} stop; for {some} on {node['name']} it {where}."


def _behind(job: Told) -> str:
    """How far back it may have to go: memory of the other nodes is nearer, and not promised."""
    if job["step"] is None:
        return "It has not told of a step yet."
    if job["stored_step"] is None:
        return f"It is at step {job['step']:,}, and its store has no checkpoint yet."
    steps = max(0, job["step"] - job["stored_step"])
    took = f", {duration(steps * job['step_s'])} of training" if steps and job["step_s"] else ""
    return (
        f"At worst it goes back from step {job['step']:,} to {job['stored_step']:,} in its store"
        f"{took}."
    )


def stopping(facts: Facts, name: str) -> str:
    """What it costs to stop the job."""
    job = facts.named(name)
    if job is None:
        return ""
    return f"Its {plural(job['ranks'], 'rank')} end, and it stays Stopped. {_kept(job)}"


def _kept(job: Told) -> str:
    if job["step"] is None:
        return "It has not told of a step yet."
    stored = "no checkpoint"
    if job["stored_step"] is not None:
        stored = f"step {job['stored_step']:,}"
    return f"It is at step {job['step']:,}; its store has {stored} so far."

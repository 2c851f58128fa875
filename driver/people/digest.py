"""What happened within a window: jobs, faults by kind, and the nodes that cost most. Pure.

Used by the route, and by the command line where no driver runs. Where the time of jobs is accounted
for in whole that is `goodput`; this counts what incidents cost.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.driver.core.state.model import Incident, Job, State

MOST_NODES = 10
REQUESTED = frozenset({"requested", "maintenance"})
"""Kinds of incidents that a person asked for: nothing was wrong."""


class OfJobs(NamedTuple):
    """How many there were in the window, by what became of them."""

    submitted: int
    by_phase: dict[str, int]
    faults: int
    lost_s: float
    steps_lost: int


class OfKind(NamedTuple):
    """Faults of one kind."""

    kind: str
    incidents: int
    faults: int
    lost_s: float


class OfNode(NamedTuple):
    """What a node had part in."""

    node: str
    incidents: int
    evicted: int
    lost_s: float


class Digest(NamedTuple):
    """`whole`: no incident of the window may have been forgotten."""

    jobs: OfJobs
    kinds: list[OfKind]
    nodes: list[OfNode]
    open: list[int]
    whole: bool


def digest(state: State, *, now: float, since_s: float) -> Digest:
    """Of the last `since_s` seconds, by driver time."""
    begin = now - since_s
    known = list(state.incidents.values())
    lately = [each for each in known if each.found_s >= begin or each.open]
    there = [job for job in state.jobs.values() if not job.finished or job.since_s >= begin]
    first = min((each.id for each in known), default=1)
    oldest = min((each.found_s for each in known), default=begin)
    return Digest(
        jobs=_jobs(there, lately, begin),
        kinds=_kinds(lately),
        nodes=_nodes(lately)[:MOST_NODES],
        open=sorted(each.id for each in lately if each.open),
        whole=first == 1 or oldest < begin,
    )


def lost_s(incident: Incident) -> float:
    """From when it began until its jobs trained on; 0 while that is not known."""
    if incident.resumed_s is None:
        return 0.0
    return incident.resumed_s - incident.found_s + incident.stalled_s


def _jobs(there: Iterable[Job], lately: Iterable[Incident], begin: float) -> OfJobs:
    jobs, faults = list(there), [each for each in lately if each.kind.value not in REQUESTED]
    by_phase: dict[str, int] = {}
    for job in jobs:
        by_phase[job.phase.value] = by_phase.get(job.phase.value, 0) + 1
    return OfJobs(
        submitted=sum(job.submitted_s >= begin for job in jobs),
        by_phase=dict(sorted(by_phase.items())),
        faults=sum(each.faults for each in faults),
        lost_s=sum(map(lost_s, lately)),
        steps_lost=sum(each.steps_lost or 0 for each in lately),
    )


def _kinds(lately: Iterable[Incident]) -> list[OfKind]:
    by_kind = _grouped((each.kind.value, each) for each in lately if each.faults)
    found = [
        OfKind(kind, len(some), sum(each.faults for each in some), sum(map(lost_s, some)))
        for kind, some in by_kind.items()
    ]
    return sorted(found, key=lambda each: (-each.lost_s, -each.faults, each.kind))


def _nodes(lately: Iterable[Incident]) -> list[OfNode]:
    by_node = _grouped((each.node, each) for each in lately if each.node and each.faults)
    found = [
        OfNode(
            node,
            len(some),
            sum(node in each.evicted for each in some),
            sum(map(lost_s, some)),
        )
        for node, some in by_node.items()
    ]
    return sorted(found, key=lambda each: (-each.lost_s, -each.incidents, each.node))


def _grouped(pairs: Iterable[tuple[str, Incident]]) -> Mapping[str, list[Incident]]:
    found: dict[str, list[Incident]] = {}
    for name, each in pairs:
        found.setdefault(name, []).append(each)
    return found

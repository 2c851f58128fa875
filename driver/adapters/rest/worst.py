"""Whom most is held against: nodes, links and versions of jobs, the worst first. Pure.

Used by the route, and by the command line where no driver runs.
"""

from collections.abc import Iterable

from holdfast.driver.adapters.rest.view import View
from holdfast.driver.adapters.rest.views import node_state
from holdfast.driver.core.evidence import age, book
from holdfast.driver.core.state.fact import Bearing, Fact
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Node


class BadNode(View):
    """A node against which something is held."""

    node: str
    suspicion: float
    """One for each accuser, half as much after 7 days, half once tests have found nothing since."""
    accused_by: list[str]
    """Versions of jobs (`speech-7b v2`) and people, the latest last."""
    strikes: int
    """Faults that were put down to it within 7 days."""
    tests: int
    """That found nothing within 7 days."""
    state: str


class BadLink(View):
    """Two nodes that could not reach each other."""

    nodes: tuple[str, str]
    ago_s: float


class BadVersion(View):
    """A version of a job that had faults within 7 days."""

    job: str
    version: int
    faults: int
    ago_s: float
    """Since the last of them."""


class Worst(View):
    """What the driver holds against whom; each list has the worst first."""

    nodes: list[BadNode]
    links: list[BadLink]
    versions: list[BadVersion]


def worst_of(state: State, *, now: float, most: int) -> Worst:
    """At most so many of each."""
    nodes = (_node(each, now) for each in state.nodes.values())
    bad = [each for each in nodes if each.suspicion or each.strikes]
    versions = [each for job in state.jobs.values() for each in _versions(job, now)]
    links = [BadLink(nodes=each.nodes, ago_s=max(0.0, now - each.at_s)) for each in state.apart]
    return Worst(
        nodes=sorted(bad, key=lambda each: (-each.suspicion, -each.strikes, each.node))[:most],
        links=sorted(links, key=lambda each: each.ago_s)[:most],
        versions=sorted(versions, key=lambda each: (-each.faults, each.ago_s))[:most],
    )


def _node(node: Node, now: float) -> BadNode:
    facts = node.record.facts
    lately = [fact for fact in facts if age.counts(fact, now)]
    return BadNode(
        node=node.name,
        suspicion=round(book.suspicion(facts, now), 3),
        accused_by=accusers(facts),
        strikes=len(book.blamed(facts, now - age.HALF_LIFE_S)),
        tests=sum(fact.bearing is Bearing.ACQUITS and not fact.by for fact in lately),
        state=node_state(node),
    )


def accusers(facts: Iterable[Fact]) -> list[str]:
    """Each once, the latest last."""
    accusing = [accuser(fact) for fact in facts if fact.bearing is Bearing.ACCUSES]
    return list(dict.fromkeys(accusing[::-1]))[::-1]


def accuser(fact: Fact) -> str:
    """`speech-7b v2`, or a person."""
    return fact.by or f"{fact.about.job} v{fact.about.version}"


def _versions(job: Job, now: float) -> list[BadVersion]:
    """Those that had faults; what somebody asked for is none."""
    faults = [each for each in job.facts if each.fault is not None and age.counts(each, now)]
    numbers = sorted({each.about.version for each in faults})
    return [
        BadVersion(
            job=job.name,
            version=number,
            faults=sum(each.about.version == number for each in faults),
            ago_s=max(0.0, now - max(x.at_s for x in faults if x.about.version == number)),
        )
        for number in numbers
    ]

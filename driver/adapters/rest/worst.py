"""Whom most is held against: nodes, links and versions of jobs, the worst first. Pure.

Used by the route, and by the command line where no driver runs.
"""

from collections.abc import Iterable

from holdfast.driver.adapters.rest.view import View
from holdfast.driver.adapters.rest.views import node_state
from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import Bearing, Fact, OfCluster, OfLink, OfStore
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
    """A way from one node to another over which the second could not be reached."""

    source: str
    target: str
    suspicion: float
    """One for each accuser, half as much after a day."""
    convicted: bool
    """By tests that each of the two passed with others."""
    accused_by: list[str]
    """Versions of jobs (`speech-7b v2`) that could not use it, and people, the latest last."""
    ago_s: float
    """Since it was told last."""


class BadVersion(View):
    """A version of a job that had faults within 7 days."""

    job: str
    version: int
    faults: int
    ago_s: float
    """Since the last of them."""


class BadStore(View):
    """A store of which jobs told within 7 days that checkpoints do not reach it."""

    url: str
    jobs: list[str]
    """For which it fails still; none: for all of them it works again."""
    ago_s: float
    """Since the last word about it."""


class Outage(View):
    """What many nodes showed at once, within 7 days: nobody was accused for it."""

    what: str
    over: bool
    ago_s: float


class Worst(View):
    """What the driver holds against whom; each list has the worst first."""

    nodes: list[BadNode]
    links: list[BadLink]
    versions: list[BadVersion]
    stores: list[BadStore]
    cluster: list[Outage]


ACCUSES = (Bearing.ACCUSES,)


def worst_of(state: State, *, now: float, most: int) -> Worst:
    """At most so many of each."""
    nodes = (_node(each, now) for each in state.nodes.values())
    bad = [each for each in nodes if each.suspicion or each.strikes]
    versions = [each for job in state.jobs.values() for each in _versions(job, now)]
    cut = dict.fromkeys(book.cut(state.facts, state.nodes, now))
    links = [_link(each, state.facts, now) for each in cut]
    return Worst(
        nodes=sorted(bad, key=lambda each: (-each.suspicion, -each.strikes, each.node))[:most],
        links=sorted(links, key=lambda x: (not x.convicted, -x.suspicion, x.ago_s))[:most],
        versions=sorted(versions, key=lambda each: (-each.faults, each.ago_s))[:most],
        stores=sorted(_stores(state, now), key=lambda x: (-len(x.jobs), x.ago_s))[:most],
        cluster=_outages(state, now)[:most],
    )


def _stores(state: State, now: float) -> list[BadStore]:
    told: dict[str, list[Fact]] = {}
    for fact in state.facts:
        if isinstance(fact.subject, OfStore) and book.counts(fact, now):
            told.setdefault(fact.subject.url, []).append(fact)
    return [
        BadStore(
            url=url,
            jobs=[fact.about.job for fact in facts if fact.bearing is Bearing.ACCUSES],
            ago_s=max(0.0, now - max(fact.at_s for fact in facts)),
        )
        for url, facts in told.items()
    ]


def _outages(state: State, now: float) -> list[Outage]:
    """The latest first."""
    facts = (fact for fact in state.facts if isinstance(fact.subject, OfCluster))
    lately = [fact for fact in facts if book.counts(fact, now)]
    heard_s = max((x.at_s for x in lately if x.bearing is Bearing.ACQUITS), default=-1.0)
    return [
        Outage(what=fact.what, over=fact.at_s <= heard_s, ago_s=max(0.0, now - fact.at_s))
        for fact in reversed(lately)
        if fact.bearing is Bearing.ACCUSES
    ]


def _link(link: OfLink, facts: Iterable[Fact], now: float) -> BadLink:
    own = [fact for fact in facts if fact.subject == link]
    return BadLink(
        source=link.source.name,
        target=link.target.name,
        suspicion=round(book.suspicion(own, now), 3),
        convicted=any(fact.bearing is Bearing.CONVICTS for fact in own),
        accused_by=accusers(own, *book.AGAINST),
        ago_s=max(0.0, now - max(fact.at_s for fact in own)),
    )


def _node(node: Node, now: float) -> BadNode:
    facts = node.record.facts
    lately = [fact for fact in facts if book.counts(fact, now)]
    return BadNode(
        node=node.name,
        suspicion=round(book.suspicion(facts, now), 3),
        accused_by=accusers(facts),
        strikes=len(book.blamed(facts, now - book.HALF_LIFE_S)),
        tests=sum(map(book.is_test, lately)),
        state=node_state(node),
    )


def accusers(facts: Iterable[Fact], *bearings: Bearing) -> list[str]:
    """Each once, the latest last; whoever accuses, where no bearings are named."""
    accusing = [accuser(fact) for fact in facts if fact.bearing in (bearings or ACCUSES)]
    return list(dict.fromkeys(accusing[::-1]))[::-1]


def accuser(fact: Fact) -> str:
    """`speech-7b v2`, or a person."""
    version = f" v{fact.about.version}" if fact.about.version else ""
    return fact.by or f"{fact.about.job}{version}"


def _versions(job: Job, now: float) -> list[BadVersion]:
    """Those that had faults; what somebody asked for is none."""
    faults = [each for each in job.facts if each.fault is not None and book.counts(each, now)]
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

"""When two faults are the same: at one site, at one node, or following a job to another. Pure.

Three questions, for they have different answers: code that is wrong fails at its site wherever it
runs, a machine that is bad fails at any site, and what follows a job to another machine was not the
first machine's.
"""

from collections.abc import Iterable, Sequence
from math import comb
from typing import NamedTuple

from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import Fact, OfNode, Site

LEAST_FAULTS = 2
"""One fault says nothing of where it was."""
ALONE_FAULTS = 3
"""Of a job with one node, whose faults can be nowhere else; and more than twice as many as on the
nodes that it had before, for what goes with it from one to the next is its own."""
CHANCE = 0.25
"""How likely chance alone may be where a node is to be left. The goal is at most one move of an
innocent in 20 faults; `holdfast bench evidence` measures it. (The prototype behind second-pass.md
had .1, and .3 with a warm standby.)"""

FAR = 0.02
"""And where a standstill that names nobody is put down to the node that others named. At .25, 2 in
100 more of jobs whose code hangs at random ended with a node named (`holdfast bench evidence`)."""

USUAL_NODE_S, USUAL_S = 500 * book.HOUR_S, 3 * book.HOUR_S
"""A fault in so many hours of nodes, and of a job of many nodes in so many hours, is no version's:
what one is measured by whose job was young. Assumed, and often: Llama 3 met one in some 6,300 hours
of nodes (Dubey et al. 2024, 3.3.4)."""
RARELY = 0.001
"""How likely chance alone may be where a version is left. It is asked at each fault, for as long as
the version runs."""
BY_FAULTS, RARELY_THEN = 6, 0.002
"""And at the sixth fault, by which a bad version is to be found. Of edits of healthy jobs 14.0 in
1,000 at most went back for it within a week, instead of 12.7; were it so at each fault, 24.0 (8 to
512 nodes, the version before a day or a week old, 1,500 lives each)."""


class Rate(NamedTuple):
    """How often faults came."""

    faults: int
    ran_s: float


def at_site(
    past: Iterable[Fact], site: Site | None, now: float, began_s: float | None = None
) -> list[Fact]:
    """Faults at the same site lately, that the job had not passed when this one began."""
    if site is None:
        return []
    began_s = now if began_s is None else began_s
    since_s = now - book.site_s(site)
    known = (fact for fact in past if fact.at_s > since_s and site.same(fact.about.site))
    return [fact for fact in known if fact.about.site and not book.behind(fact.about.site, began_s)]


def chance(own: int, faults: int, nodes: int) -> float:
    """How many of `nodes` would have `own` of the `faults` by chance, were each as likely as the
    others: nodes P(Binomial(faults, 1/nodes) >= own), and no more than 1."""
    return min(1.0, nodes * _at_least(own, faults, 1 / nodes))


def _at_least(own: int, faults: int, share: float) -> float:
    """P(Binomial(faults, share) >= own)."""
    return sum(
        comb(faults, k) * share**k * (1 - share) ** (faults - k) for k in range(own, faults + 1)
    )


def more_often(own: Rate, before: Rate, nodes: int) -> bool:
    """Whether faults come more often than before by more than chance: so many of all of them would
    be as late as they are, were they as likely at any time. One more is counted with those before,
    as late as it would come, for what ran for only a while tells little."""
    next_s = max(USUAL_S, USUAL_NODE_S / nodes)
    if before.faults:
        next_s = min(next_s, before.ran_s / before.faults)
    share = own.ran_s / (own.ran_s + before.ran_s + next_s)
    rarely = RARELY_THEN if own.faults == BY_FAULTS else RARELY
    return _at_least(own.faults, own.faults + before.faults + 1, share) <= rarely


def stands_out(own: int, faults: int, nodes: int) -> bool:
    """Whether so many of a job's faults at one of its nodes are more than chance."""
    if nodes == 1:
        return own >= ALONE_FAULTS and own > 2 * (faults - own)
    return own >= LEAST_FAULTS and chance(own, faults, nodes) <= CHANCE


def usual(named: Sequence[OfNode], nodes: int) -> OfNode | None:
    """The node on which most of a job's faults are, by far more than chance; None where none is."""
    often = max(named, key=named.count, default=None)
    far = often is not None and chance(named.count(often), len(named), nodes) <= FAR
    return often if far and nodes > 1 else None


def few_stand_out(few: int, faults: int, nodes: int) -> bool:
    """Whether it is more than chance that all of so many faults were on `few` of a job's nodes: of
    all such sets, one would have them C(nodes, few) (few/nodes)^faults times."""
    if faults <= few or 2 * few > nodes:
        return False
    by_chance = comb(nodes, few) * (few / nodes) ** faults
    return by_chance <= CHANCE


def followed(
    past: Sequence[Fact], site: Site | None, place: int | None, node: OfNode, *, words: bool = False
) -> bool:
    """Whether the same came at this place on another machine before: then it is neither's. `words`:
    what a script says counts as the same wherever it says it, for its data are those of the place.
    """
    if site is None or place is None:
        return False
    there = [fact for fact in past if fact.about.place == place and fact.about.site is not None]
    alike = (fact for fact in there if _alike(site, fact.about.site, words=words))
    return any(fact.about.named not in (None, node) for fact in alike)


def _alike(site: Site, other: Site | None, *, words: bool) -> bool:
    return site.same(other) or (words and other is not None and other.words == site.words)

"""What is asked of the book of facts: who was accused, what was paid, how patient to be. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log2

from msgspec.structs import replace

from holdfast.driver.core.evidence import age
from holdfast.driver.core.state.fact import Act, Bearing, Fact, OfLink, OfNode
from holdfast.driver.core.state.node import Node
from holdfast.protocol.faults import Blame

ACCUSERS = 3
"""Distinct versions of jobs whose faults stood out on a node, within `age.HALF_LIFE_S`, that put it
into quarantine without a failed test (second-pass.md, "Evidence")."""
OF_ONE_JOB = 2
"""Versions of one job that count: a mistake that its edits leave in goes with it to whatever nodes
it gets, so that at least one other has to say the same."""
SENSITIVITY = 0.5
"""How much of a suspicion a test that finds nothing takes away: so many of bad nodes it would have
found. Many such tests take no more, for they would miss the same again."""
LOW = 1.0
"""Suspicion below which a quarantine may end: less than one accusation that is new."""

AGAINST = frozenset({Bearing.CONVICTS, Bearing.ACCUSES})
MOVES = frozenset({Act.MOVE_WARM, Act.MOVE_COLD})


def paid(facts: Iterable[Fact], payer: Blame, since_s: float, *, earned: bool = True) -> int:
    """Restarts that were paid from one budget. `earned`: with those that the job had earned."""
    own = (fact for fact in facts if fact.payer is payer and (earned or not fact.earned))
    return sum(1 for fact in own if fact.at_s > since_s)


def accusers(facts: Iterable[Fact], now: float) -> int:
    """How many versions of jobs, and people, accuse a node by its facts."""
    accused = (fact for fact in facts if fact.bearing is Bearing.ACCUSES and age.counts(fact, now))
    each = Counter((job, by) for job, _version, by in {accuser(fact) for fact in accused})
    return sum(min(versions, OF_ONE_JOB) for versions in each.values())


def accuser(fact: Fact) -> tuple[str, int, str]:
    """Who accuses: a version of a job, or a person."""
    return fact.about.job, fact.about.version, fact.by


def suspicion(facts: Iterable[Fact], now: float) -> float:
    """How much speaks against a node: one for each version of a job that accuses it, less as that
    ages, and less once a test has found nothing since. Never 0 by a test alone."""
    known = list(facts)
    newest: dict[tuple[str, int, str], float] = {}
    for fact in known:
        if fact.bearing is Bearing.ACCUSES and (left := age.weight(fact, now)) >= age.LEAST:
            newest[accuser(fact)] = max(newest.get(accuser(fact), 0.0), left)
    return sum(newest.values()) * (1 - SENSITIVITY if tested_since(known) else 1.0)


def tested_since(facts: Iterable[Fact]) -> bool:
    """Whether tests have found nothing since a node was accused last."""
    known = list(facts)
    accused_s = max((each.at_s for each in known if each.bearing is Bearing.ACCUSES), default=0.0)
    return any(_is_test(each) and each.at_s >= accused_s for each in known)


def low_after_s(facts: Iterable[Fact], now: float) -> float:
    """In how many seconds suspicion is low, once tests have found nothing and if nothing new comes;
    0 where it is then. All of it halves in the same time."""
    known = list(facts)
    left = suspicion(known, now) * (1.0 if tested_since(known) else 1 - SENSITIVITY)
    return age.HALF_LIFE_S * log2(left / LOW) if left > LOW else 0.0


def acquitted(facts: Iterable[Fact], since_s: float) -> bool:
    """Whether tests of a node have found nothing since then."""
    return any(_is_test(fact) and fact.at_s > since_s for fact in facts)


def _is_test(fact: Fact) -> bool:
    """Whether it is a test that found nothing: what a person says is none."""
    return fact.bearing is Bearing.ACQUITS and not fact.by


def blamed(facts: Iterable[Fact], since_s: float) -> list[Fact]:
    """Faults that were put down to a node since then, the oldest first."""
    told = (fact for fact in facts if fact.bearing is not Bearing.ACQUITS and not fact.by)
    return [fact for fact in told if fact.at_s > since_s]


def moved_off(facts: Iterable[Fact], now: float) -> frozenset[OfNode]:
    """Nodes that a job left lately without proof against them: last in its choice."""
    return frozenset(
        fact.about.node
        for fact in facts
        if fact.done in MOVES and fact.about.node is not None and age.counts(fact, now)
    )


def not_swapped(facts: Sequence[Fact], job: str) -> tuple[Fact, ...]:
    """With the newest fault of the job for which places were to be swapped as one for which its
    ranks were started again: a place that did not change tells nothing."""
    asked = [each for each in facts if each.done is Act.SWAP and each.about.job == job]
    again = replace(asked[-1], done=Act.RESTART) if asked else None
    return tuple(again if again and each is asked[-1] else each for each in facts)


def cut(facts: Iterable[Fact], nodes: Mapping[str, Node], now: float) -> Iterator[OfLink]:
    """Links that are accused or convicted within their time, of machines that there still are: two
    at such ends are not to sit together where others are free."""
    for fact in facts:
        if isinstance(fact.subject, OfLink) and fact.bearing in AGAINST and age.counts(fact, now):
            ends = (fact.subject.source, fact.subject.target)
            if all(x.name in nodes and nodes[x.name].subject == x for x in ends):
                yield fact.subject

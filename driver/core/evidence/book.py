"""The book of facts: how long they count, who was accused, what was paid, how patient to be. Pure.

A fact weighs half as much after each half-life. It counts, in rules that count, while it weighs at
least half, and is dropped when next to nothing is left of it. What a budget is paid from counts
within the budget's own window and does not decay.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, log2

from msgspec.structs import replace

from holdfast.driver.core.state.fact import Act, Bearing, Fact, OfLink, OfNode, OfVersion, Site
from holdfast.driver.core.state.node import Node
from holdfast.protocol.faults import Blame

# ---------------------------------------------------------------- how long they count

HOUR_S, DAY_S = 3_600.0, 86_400.0

SITE_S = 6 * HOUR_S
"""Faults at one site of a script count as the same for so long, unless it is passed before."""
START_S = 1 * HOUR_S
"""Those before the first step, or so many steps after a start: the same may befall a restart that
comes much later."""
HALF_LIFE_S = 7 * DAY_S
"""Of what a node is accused of, of tests that acquit it, and of a job's faults."""
LINK_S = 1 * DAY_S
"""Of what two nodes that cannot reach each other say of the way between them: no test of it comes
by itself, and a cable is soon another one (second-pass.md, "Evidence")."""

LEAST = 1 / 16
"""What weighs less is dropped."""
FORGOTTEN_S = HALF_LIFE_S * log2(1 / LEAST)
"""After which nothing is left of what a node was accused of."""
KEPT = 128
"""Facts that one subject keeps at most, the latest ones."""
KEPT_STANDING = 1_024
"""And of those that stand: a budget that allows more restarts in its window is none."""


def weight(fact: Fact, now: float) -> float:
    """1 for what is new, half as much after each half-life. A clock that was put back ages
    nothing."""
    half_life_s = LINK_S if isinstance(fact.subject, OfLink) else HALF_LIFE_S
    return float(0.5 ** (max(0.0, now - fact.at_s) / half_life_s))


def counts(fact: Fact, now: float) -> bool:
    """Whether it is younger than its half-life."""
    return weight(fact, now) >= 1 / 2


def site_s(site: Site) -> float:
    """How long faults at this site count as the same."""
    return START_S if site.fresh or site.relative else SITE_S


def behind(site: Site, now: float) -> bool:
    """Whether the job has got past it. Of a standstill that is known only after a while: what is
    slow there comes again, after a rollback, say."""
    if site.passed_s is None:
        return False
    return site.step is not None or site.fresh or now - site.passed_s > START_S


def kept(facts: Iterable[Fact], now: float, *, paid_s: float = 0.0) -> tuple[Fact, ...]:
    """Without what has decayed, and no more than one subject keeps. What convicts a node has no
    age: it stands until a test or a person takes it back. Nor has it that a version was left for
    its faults, or what people said for or against one. What was paid counts for `paid_s`, the
    longest window of its budgets."""
    known, since_s = list(facts), now - paid_s
    standing = [fact for fact in known if _stands(fact, since_s)][-KEPT_STANDING:]
    others = (fact for fact in known if not _stands(fact, since_s))
    latest = [fact for fact in others if weight(fact, now) >= LEAST][-KEPT:]
    return tuple(sorted((*standing, *latest), key=lambda fact: (fact.at_s, fact.entry)))


def known_since_s(facts: Sequence[Fact], now: float, paid_s: float) -> float:
    """Since when none of a job's facts was dropped for their number: what stands stays longer."""
    latest = [fact for fact in facts if not _stands(fact, now - paid_s)]
    return latest[-KEPT].at_s if len(latest) >= KEPT else -inf


def _stands(fact: Fact, since_s: float) -> bool:
    paid = fact.payer is not None and not fact.earned and fact.at_s > since_s
    return paid or _has_no_age(fact)


def _has_no_age(fact: Fact) -> bool:
    if isinstance(fact.subject, OfVersion):
        said = bool(fact.by) and fact.bearing is not Bearing.CONTEXT
        return said or fact.done is Act.VERSION_BEFORE
    return fact.bearing is Bearing.CONVICTS and isinstance(fact.subject, OfNode)


# ---------------------------------------------------------------- what is asked of them

ACCUSERS = 3
"""Distinct versions of jobs whose faults stood out on a node, within `HALF_LIFE_S`, that put it
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
    accused = (fact for fact in facts if fact.bearing is Bearing.ACCUSES and counts(fact, now))
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
        if fact.bearing is Bearing.ACCUSES and (left := weight(fact, now)) >= LEAST:
            newest[accuser(fact)] = max(newest.get(accuser(fact), 0.0), left)
    return sum(newest.values()) * (1 - SENSITIVITY if tested_since(known) else 1.0)


def tested_since(facts: Iterable[Fact]) -> bool:
    """Whether tests have found nothing since a node was accused last."""
    known = list(facts)
    accused_s = max((each.at_s for each in known if each.bearing is Bearing.ACCUSES), default=0.0)
    return any(is_test(each) and each.at_s >= accused_s for each in known)


def low_after_s(facts: Iterable[Fact], now: float) -> float:
    """In how many seconds suspicion is low, once tests have found nothing and if nothing new comes;
    0 where it is then. All of it halves in the same time."""
    known = list(facts)
    left = suspicion(known, now) * (1.0 if tested_since(known) else 1 - SENSITIVITY)
    return HALF_LIFE_S * log2(left / LOW) if left > LOW else 0.0


def acquitted(facts: Iterable[Fact], since_s: float) -> bool:
    """Whether tests of a node have found nothing since then."""
    return any(is_test(fact) and fact.at_s > since_s for fact in facts)


def is_test(fact: Fact) -> bool:
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
        if fact.done in MOVES and fact.about.node is not None and counts(fact, now)
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
        if isinstance(fact.subject, OfLink) and fact.bearing in AGAINST and counts(fact, now):
            ends = (fact.subject.source, fact.subject.target)
            if all(x.name in nodes and nodes[x.name].subject == x for x in ends):
                yield fact.subject

"""How long facts count. Pure.

A fact weighs half as much after each half-life. It counts, in rules that count, while it weighs at
least half, and is dropped when next to nothing is left of it. What a budget is paid from counts
within the budget's own window and does not decay.
"""

from collections.abc import Iterable, Sequence
from math import inf, log2

from holdfast.driver.core.state.fact import Bearing, Fact, OfLink, OfNode, Site

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
    age: it stands until a test or a person takes it back. What was paid counts for `paid_s`, the
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
    return paid or (fact.bearing is Bearing.CONVICTS and isinstance(fact.subject, OfNode))

"""How patient detectors are where a job stood still before. Pure.

Asked by `feed` of each job, by the facts that are known of it.
"""

from collections.abc import Iterable

from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import Fact


def patience_of(facts: Iterable[Fact], now: float) -> dict[str, int]:
    """How often a job was restarted for standing still, by where in its script: so much longer are
    the detectors patient there. What it got past long ago is slow still, and counts once."""
    times: dict[str, int] = {}
    since_s = now - book.SITE_S
    for fact in facts:
        if fact.stood and (site := fact.about.site) is not None:
            known = times.get(site.words, 0)
            counts = fact.at_s > since_s and not book.behind(site, now)
            times[site.words] = known + 1 if counts else max(1, known)
    return times

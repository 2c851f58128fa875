"""What is held against a node, and what would change the driver's mind, in sentences. Pure.

Used by `telling`, for who has never seen a node that was left or put out.
"""

from collections.abc import Callable, Iterable

from holdfast.driver.adapters.rest.worst import accuser
from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import Bearing, Fact, OfLink, OfPoint, OfStore
from holdfast.driver.core.state.model import Job, Phase, State
from holdfast.driver.core.state.node import Lent, Node, Quarantined, Suspect
from holdfast.driver.core.state.restore_point import RestorePoint, Where
from holdfast.protocol.counts import plural

SAYS = {Bearing.ACCUSES: "accuses", Bearing.ACQUITS: "clears", Bearing.CONTEXT: "notes of"}
"""As a person's fact is told."""

Summary = Callable[[float], str]
"""Of the fault that the node had at a time; "" where nobody knows."""


def held(state: State, node: Node, now: float, summary: Summary) -> list[str]:
    """Who accuses it, and of what; what tests and people say; how much of all that is left."""
    facts = node.record.facts
    known = _latest(facts)
    newest = {book.accuser(each): each for each in known if each.bearing is Bearing.ACCUSES}
    told = [
        _fact(fact, now, summary, again=newest.get(book.accuser(fact), fact) is not fact)
        for fact in known
    ]
    links = _links(state, node, now)
    return [*filter(None, told), *_left(facts, now), *_moved(state, node, now), *links]


def of_job(state: State, job: Job, now: float) -> list[str]:
    """What is held against its restore points, and by others against its store."""
    points = [
        f"{RestorePoint(step=of.step, epoch=of.epoch, where=of.where)} is not used again: "
        f"{fact.what}, {span(now - fact.at_s)} ago"
        for fact in job.facts
        if isinstance(of := fact.subject, OfPoint)
    ]
    return [*points, *_of_store(state, job, now)]


def _of_store(state: State, job: Job, now: float) -> list[str]:
    """Without their names, which not everybody may see."""
    store = OfStore(url=job.plan.task.store_url)
    told = [x for x in state.facts if x.subject == store and x.about.job != job.name]
    fails = [x.at_s for x in told if x.bearing is Bearing.ACCUSES and book.counts(x, now)]
    if not fails:
        return []
    others = "another job" if len(fails) == 1 else f"{len(fails)} other jobs"
    return [f"its store fails for {others}, too: told {span(now - max(fails))} ago"]


def _latest(facts: Iterable[Fact]) -> list[Fact]:
    """Of each accuser the newest accusation, of tests the newest, and all that people say."""
    kept: dict[object, Fact] = {}
    for place, fact in enumerate(facts):
        who = (fact.bearing, fact.subject, accuser(fact))
        known = who if fact.bearing is not Bearing.CONTEXT else place
        key = (place,) if fact.by else known
        kept.pop(key, None)
        kept[key] = fact
    return list(kept.values())


def _fact(fact: Fact, now: float, summary: Summary, *, again: bool) -> str:
    """`again`: who says so has said so since, which counts as one word."""
    ago = f"{span(now - fact.at_s)} ago"
    what = fact.what if fact.by else summary(fact.at_s) or fact.what
    if fact.bearing is Bearing.ACCUSES:
        weight = f"weighs {book.weight(fact, now):.2g} of 1 now"
        counts = "counts with the next" if again else weight
        return f"{accuser(fact)} accuses it: {what}, {ago}, {counts}"
    if fact.bearing is Bearing.CONVICTS:
        return f"convicted: {what}, {ago}; until it passes its tests"
    if fact.bearing is Bearing.ACQUITS:
        return f"{fact.by} cleared it: {what}, {ago}" if fact.by else f"tests found nothing, {ago}"
    return f"{fact.by} notes: {what}, {ago}" if fact.by else ""


def _links(state: State, node: Node, now: float) -> list[str]:
    """Ways to it and from it of which something is known."""
    return [
        _of_link(link, fact, now)
        for fact in _latest(state.facts)
        if isinstance(link := fact.subject, OfLink) and node.subject in (link.source, link.target)
    ]


def _of_link(link: OfLink, fact: Fact, now: float) -> str:
    of, ago = f"the link from {link.source.name} to {link.target.name}", span(now - fact.at_s)
    if fact.by:
        return f"{fact.by} {SAYS[fact.bearing]} {of}: {fact.what}, {ago} ago"
    told = f"{accuser(fact)} {'convicts' if fact.bearing is Bearing.CONVICTS else 'accuses'} {of}"
    return f"{told}: {fact.what}, {ago} ago, weighs {book.weight(fact, now):.2g} of 1 now"


def _left(facts: Iterable[Fact], now: float) -> list[str]:
    known = list(facts)
    left, count = book.suspicion(known, now), book.accusers(known, now)
    if not left:
        return []
    tests = ", halved by tests that found nothing" if book.tested_since(known) else ""
    days = book.HALF_LIFE_S / book.DAY_S
    told = f"suspicion {left:.2g}{tests}; it halves every {days:.0f} days"
    return [f"{told}. {count} of {book.ACCUSERS} accusers that put a node into quarantine"]


def _moved(state: State, node: Node, now: float) -> list[str]:
    """Jobs that left it, and take it last for a while."""
    left = [job.name for job in _left_by(state, node, now)]
    for_s = f"for {span(book.HALF_LIFE_S)} after that"
    return [f"left by {', '.join(left)}, without proof: taken last by it {for_s}"] if left else []


def _left_by(state: State, node: Node, now: float) -> list[Job]:
    jobs = state.jobs.values()
    return [job for job in jobs if node.subject in book.moved_off(job.facts, now)]


def mind(state: State, node: Node, now: float, again: str) -> str:
    """What would have it used again, or thought well of; "" where nothing is held against it.
    `again`: when it is tested next, "" where that is not known."""
    trust = node.trust
    if isinstance(trust, Quarantined):
        return _back_in_use(node, trust, now, again)
    if isinstance(trust, Suspect):
        return (
            "Goes back to use once its tests find nothing; where they fail it is put into "
            f"quarantine. To use it now: {_restore(node)}"
        )
    return _thought_well_of(state, node, now)


def mind_of_job(job: Job) -> str:
    """How people go on from what a job that was given up had saved; "" where nothing is known of
    that."""
    usable = (each for each in job.points if each.usable and each.where is Where.STORE)
    newest = max((each.step for each in usable), default=None)
    if job.phase is not Phase.FAILED or newest is None:
        return ""
    return (
        f"What it saved is kept. Once that is mended another job goes on from step {newest}: "
        'with "holdfast run --begin-from …", or "checkpoint.beginFrom" in its spec'
    )


def mind_once_over(state: State, node: Node, now: float) -> str:
    """The same of a node that ended with its driver."""
    if not mind(state, node, now, ""):
        return ""
    return (
        "Another run begins with nothing against it: what is held against it is in this run's "
        "folder alone. A driver that is started on that folder again goes on with it."
    )


def _thought_well_of(state: State, node: Node, now: float) -> str:
    """Of a node that may be used."""
    left, says = _left_by(state, node, now), f"or when a person says so: {_clears(node)}"
    if not book.suspicion(node.record.facts, now):
        still = ", ".join(job.name for job in left if not job.finished)
        until = f"until {span(book.HALF_LIFE_S)} after that job left it"
        return f"It may be used, by {still} last: {until}, {says}" if still else ""
    verdict = ": that a job left it is no verdict" if left else ""
    return (
        f"It may be used{verdict}. What a job accuses it of is taken back where the same comes "
        f"again at its place on another node. {book.ACCUSERS} accusers (people, and "
        f"versions of jobs, of one job at most {book.OF_ONE_JOB}) within "
        f"{span(book.HALF_LIFE_S)}, or a failed test, put it into quarantine; the last accusation "
        f"is forgotten after {span(book.FORGOTTEN_S)}, {says}"
    )


def _back_in_use(node: Node, out: Quarantined, now: float, again: str) -> str:
    if out.by_person:
        return f"Goes back to use only when a person says so: {_restore(node)}"
    person = f"when a person says so: {_restore(node)} (at once)"
    if out.exam_s is None and not isinstance(node.holding, Lent):
        return f"Nothing is known to test it with, so it goes back to use only {person}"
    next_ = f" (the next is at {again})" if again else ""
    test = f"Goes back to use after a passed test{next_}{_once_low(node, now)}"
    return f"{test}, or {person}, or {_clears(node)} (after a passed test)"


def _once_low(node: Node, now: float) -> str:
    facts = node.record.facts
    low_s = book.low_after_s(facts, now)
    if not low_s:
        return ""
    halves = "" if book.tested_since(facts) else "; a passed test halves it"
    left = f"now {book.suspicion(facts, now):.2g}{halves}"
    return f" once suspicion is below {book.LOW:.0f} ({left}; about {span(low_s)} if nothing comes)"


def _restore(node: Node) -> str:
    return f'holdfast nodes restore {node.name} --reason "…"'


def _clears(node: Node) -> str:
    return f'holdfast fact {node.name} "…" --clears'


def span(seconds: float) -> str:
    """`4 days`, `5 hours`, `20 minutes`, `8 seconds`, `1 second`."""
    for unit, unit_s in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * unit_s:
            return f"{round(seconds / unit_s)} {unit}s"
    return plural(max(0, round(seconds)), "second")

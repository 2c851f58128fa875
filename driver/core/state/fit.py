"""May this node be used for this? One pure answer, with every reason why not. Nothing else decides.

Asked by scheduling, standbys, borrowing, tests, REST and the command line. A reason not to use a
node is a `Bar`, that of a `Source` has its name: where it is met stands in `_bars`, which uses it
keeps a node from in `KEPT_FROM`.
What bars a job from every node (`Job.barred`) is asked once, of the job. Which templates fit on
which node is the cluster's own answer: a job has heard it (`Job.unfit`), or hears it when it asks.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from operator import attrgetter, is_not

from holdfast.driver.core.state.model import Job, Purpose
from holdfast.driver.core.state.node import (
    Connected,
    Free,
    Held,
    Here,
    Lent,
    Node,
    Promised,
    Quarantined,
    Returning,
    Source,
    Suspect,
    Trusted,
)
from holdfast.driver.core.state.value import Value


class Use(StrEnum):
    """What a node may be wanted for."""

    PLACE = "place"  # to run ranks of a job: free, or a standby that the job has
    STANDBY = "standby"  # to stand by for a job
    BORROW = "borrow"  # to be given back by the job whose standby it is, for another job
    AT_ONCE = "at once"  # to take a place of the job whose standby it is, which trains on
    EXAM = "exam"  # to be tested without a job, since it was evicted or is suspected
    ASIDE = "aside"  # to leave its job for that, which goes on without it
    SELF_TEST = "self-test"  # to be tested alone, as a standby that has come
    PARTNER = "partner"  # to take part in tests with others of its job
    ASKED = "asked"  # to be tested since a person asks how it is
    HELPER = "helper"  # to be tested beside a job's nodes though it is not the job's


class Bar(StrEnum):
    """A reason not to use a node, as a sentence about it."""

    UNKNOWN = "the cluster does not know it"
    GONE = "it is gone"
    HELD = "a job has it"
    LENT = "it is being tested"
    RETURNING = "it is being given back"
    QUARANTINED = "it is quarantined"
    SUSPECT = "it is to be tested first"
    TRUSTED = "nothing is proved against it"
    BY_PERSON = "a person evicted it"
    UNMARKED = "the cluster has not noted yet that it is quarantined"
    NO_SETUP = "it is not known with what a job would use it"
    CORDON = "it gets no new work"
    PERSON = "a person wants it free"
    DRAIN = "the cluster wants it free"
    EXECUTOR = "its executor has to go"
    REST = "it failed lately"
    UNFIT = "it could not run this job lately"
    SILENT = "no executor of it is connected"
    COMING = "the cluster has not given it yet"
    RANKS = "ranks run there, or may"
    EXAMINED = "it takes part in tests"
    ASKED = "it takes part in tests that a person asked for"
    TESTED = "it was tested when it came"


class Reason(Value, frozen=True):
    """Why a node may not be used."""

    bar: Bar
    detail: str = ""  # in the words of whoever said so

    def __str__(self) -> str:
        return self.detail or self.bar.value

    @property
    def whole(self) -> str:
        """Also that it is quarantined, where the words are why."""
        return f"{self.bar} ({self.detail})" if self.bar is Bar.QUARANTINED else str(self)


_THERE = frozenset({Bar.UNKNOWN, Bar.GONE})
_NOTICED = frozenset({Bar.PERSON, Bar.DRAIN, Bar.EXECUTOR})
_TAKEN = frozenset({Bar.HELD, Bar.LENT, Bar.RETURNING})
_DOUBTED = frozenset({Bar.QUARANTINED, Bar.SUSPECT})
_SOUND = _THERE | _NOTICED | _DOUBTED | {Bar.CORDON}
_NEW = _SOUND | _TAKEN | {Bar.REST, Bar.UNFIT}
_TESTABLE = frozenset({Bar.SILENT, Bar.RANKS, Bar.EXAMINED})

KEPT_FROM: Mapping[Use, frozenset[Bar]] = {
    Use.PLACE: _NEW,
    Use.STANDBY: _NEW,
    Use.BORROW: _SOUND | {Bar.UNFIT},
    Use.AT_ONCE: _NEW | {Bar.SILENT, Bar.COMING},
    Use.EXAM: _THERE | _NOTICED | _TAKEN | {Bar.TRUSTED, Bar.BY_PERSON, Bar.UNMARKED, Bar.NO_SETUP},
    Use.ASIDE: _DOUBTED | {Bar.SILENT},
    Use.SELF_TEST: _TESTABLE | {Bar.COMING, Bar.TESTED},
    Use.PARTNER: _DOUBTED | _TESTABLE,
    Use.ASKED: _TESTABLE | {Bar.ASKED, Bar.UNKNOWN, Bar.LENT, Bar.RETURNING, Bar.COMING},
    Use.HELPER: _NEW | _TESTABLE,
}
"""Which reasons count for which use. A partner is a node that the job has, whose ranks stand still
or that stands by, so that hardly any counts: who wants it free, or wants no new work there, loses
nothing by a minute of tests, and a suspect beside nobody says nothing. Of a node that the cluster
calls gone while its executor is connected, the tests tell more than either. One that was lent to
another job, or is given back, is the job's no more; a free one that helps might be its place.
What a person asked keeps a node from no other tests: it leaves for them at once."""

_QUICK = frozenset(use for use, bars in KEPT_FROM.items() if bars <= _NEW)
"""Uses for which thousands are asked."""

COME_BACK = frozenset({Bar.GONE, Bar.LENT, Bar.RETURNING})
"""Reasons that pass, as a rule, without anybody's doing."""

TOLD = _NEW - {Bar.UNKNOWN, Bar.HELD}
"""Reasons that tell who waits why a node that nobody has is not for it."""


def fit(use: Use, job: Job | None, node: Node, now: float) -> tuple[Reason, ...]:
    """Why `job` may not use `node` so at driver second `now`; () where it may. The job is None
    where it is nobody's in particular. The weightiest reason comes first.
    """
    counts = KEPT_FROM[use]
    return tuple(reason for reason in _bars(job, node, now) if reason.bar in counts)


def fits(use: Use, job: Job | None, node: Node, now: float) -> bool:
    """Whether there is no reason at all, as soon as one is met."""
    counts = KEPT_FROM[use]
    if use in _QUICK and _ordinary(job, node):  # most are
        return counts.isdisjoint(_TAKEN) or next(_of_holding(job, node), None) is None
    return not any(reason.bar in counts for reason in _bars(job, node, now))


def _ordinary(job: Job | None, node: Node) -> bool:
    """Whether nothing is against the node but, if at all, whose it is."""
    trusted_here = isinstance(node.trust, Trusted) and isinstance(node.presence, Here)
    fit_for_it = job is None or node.name not in job.unfit
    return trusted_here and fit_for_it and not node.against


def _bars(job: Job | None, node: Node, now: float) -> Iterator[Reason]:
    """Everything that may be against a use, whatever it is."""
    yield from _of_trust(node)
    if not node.present:
        yield Reason(bar=Bar.UNKNOWN if node.stranger else Bar.GONE)
    yield from _of_holding(job, node)
    yield from _of_sources(node, now)
    if job is None or node.job != job.name:  # what a job has already is no new work for it
        yield from _of_new_work(job, node, now)
    yield from _of_work(job, node)


def _of_holding(job: Job | None, node: Node) -> Iterator[Reason]:
    match node.holding:
        case Free():
            return
        case Returning():
            yield Reason(bar=Bar.RETURNING)
        case Lent():
            yield Reason(bar=Bar.LENT)
        case Promised(job=owner) | Held(job=owner):
            if job is None or owner != job.name:
                yield Reason(bar=Bar.HELD, detail=f"{owner} has it")


def _of_trust(node: Node) -> Iterator[Reason]:
    match node.trust:
        case Trusted():
            yield Reason(bar=Bar.TRUSTED)
        case Suspect(why=why):
            yield Reason(bar=Bar.SUSPECT, detail=f"it is tested first: {why}")
        case Quarantined():
            yield from _of_quarantine(node.trust)


def _of_quarantine(quarantine: Quarantined) -> Iterator[Reason]:
    yield Reason(bar=Bar.QUARANTINED, detail=quarantine.why)
    if quarantine.by_person:
        yield Reason(bar=Bar.BY_PERSON, detail=quarantine.why)
    if not quarantine.marked:
        yield Reason(bar=Bar.UNMARKED)
    if quarantine.setup is None:
        yield Reason(bar=Bar.NO_SETUP)


def _of_sources(node: Node, now: float) -> Iterator[Reason]:
    """Of those that want the node left in peace, in their order."""
    if not node.against:
        return  # nearly always: asked of thousands
    for source in Source:
        known = node.against.get(source)
        if source is Source.CORDON or known is None:
            continue
        if known.until_s is None or known.until_s > now:
            yield Reason(bar=Bar[source.name], detail=known.why)


def _of_new_work(job: Job | None, node: Node, now: float) -> Iterator[Reason]:
    if cordon := node.against.get(Source.CORDON):
        yield Reason(bar=Bar.CORDON, detail=cordon.why)
    if job is not None and (unfit := job.unfit.get(node.name)) and unfit.until_s > now:
        yield Reason(bar=Bar.UNFIT, detail=unfit.why)


def _of_work(job: Job | None, node: Node) -> Iterator[Reason]:
    """Of what it does now, or is not there to do."""
    if not isinstance(node.link, Connected):
        yield Reason(bar=Bar.SILENT)
    if isinstance(node.holding, Promised):
        yield Reason(bar=Bar.COMING)
    if job is not None and node.job == job.name and _may_have_ranks(job, node):
        yield Reason(bar=Bar.RANKS)
    if node.exam is not None:
        asked = node.exam.startswith(f"{Purpose.ASKED}.")  # see `rounds.new_id`
        yield Reason(bar=Bar.ASKED if asked else Bar.EXAMINED)
    if node.held is not None and node.held.tested is not None:
        yield Reason(bar=Bar.TESTED)


def _may_have_ranks(job: Job, node: Node) -> bool:
    """Of this epoch, or older ones."""
    at_work = job.seated and node.name not in job.standbys
    return at_work or node.quiet_in(job.epoch) is None


# ---------------------------------------------------------------- when to ask again

_OF_JOB = attrgetter(
    *("phase", "wanted", "parked", "layout", "standbys", "leaving", "vacant"),
    *("unfit", "tried", "barred", "facts"),
)
_OF_NODE = attrgetter("presence", "trust", "against")


def job_asks_anew(old: Job | None, new: Job) -> bool:
    """Whether the job may have, or may let others have, another node than before. Where nothing
    does, nobody is asked: that costs a look along all nodes, and most of what thousands of them
    tell (ranks that run, steps, saves) gives nobody a node."""
    return old is None or any(map(is_not, _OF_JOB(old), _OF_JOB(new)))


def node_asks_anew(old: Node | None, new: Node) -> bool:
    """Whether somebody may use the node who could not, or the other way round."""
    if old is None or any(map(is_not, _OF_NODE(old), _OF_NODE(new))):
        return True
    held = (type(old.holding), old.job) != (type(new.holding), new.job)
    return held or old.connected != new.connected

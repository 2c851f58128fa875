"""Whether a node may be used for something: one answer, with every reason."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.fit import KEPT_FROM, TOLD, Bar, Use, fit, fits
from holdfast.driver.core.state.model import Phase, Unfit
from holdfast.driver.core.state.node import Against, Node, Source
from holdfast.driver.people.node_words import STATES
from holdfast.protocol.messages import Task

NOW = 100.0
GOOD = Node(name="n0", presence=n.Here(), link=n.Connected(incarnation="a", address="10.0.0.1"))
JOB = made_job(
    "job",
    Plan(task=Task(workdir="/", command=("python",)), nodes=1, ranks_per_node=1),
    phase=Phase.PENDING,
    unfit={"n1": Unfit(until_s=NOW + 1, why="no room"), "n2": Unfit(until_s=NOW - 1, why="")},
)
SETUP = n.ExamSetup(job="job")
OUT = n.Quarantined(why="XID 79", incident=1, marked=True, setup=SETUP)

BARRED: Mapping[Bar, Node] = {
    Bar.UNKNOWN: replace(GOOD, presence=n.Unknown()),
    Bar.GONE: replace(GOOD, presence=n.Gone(since_s=1.0)),
    Bar.HELD: replace(GOOD, holding=n.Promised(job="other")),
    Bar.LENT: replace(GOOD, holding=n.Lent()),
    Bar.RETURNING: replace(GOOD, holding=n.Returning()),
    Bar.QUARANTINED: replace(GOOD, trust=OUT),
    Bar.SUSPECT: replace(GOOD, trust=n.Suspect(why="a hang", setup=SETUP, exam_s=1.0)),
    Bar.TRUSTED: GOOD,
    Bar.BY_PERSON: replace(GOOD, trust=replace(OUT, by_person=True)),
    Bar.UNMARKED: replace(GOOD, trust=replace(OUT, marked=False)),
    Bar.NO_SETUP: replace(GOOD, trust=replace(OUT, setup=None)),
    Bar.UNFIT: replace(GOOD, name="n1"),
    Bar.SILENT: replace(GOOD, link=n.Never()),
    Bar.COMING: replace(GOOD, holding=n.Promised(job="job", quiet=n.Quiet())),
    Bar.RANKS: replace(GOOD, holding=n.Held(job="job", quiet=n.Quiet(epoch=7))),
    Bar.EXAMINED: replace(GOOD, exam="e"),
    Bar.ASKED: replace(GOOD, exam="asked.1.n0"),
    Bar.TESTED: replace(GOOD, holding=n.Held(job="job", quiet=n.Quiet(), tested=True)),
    **{
        Bar[source.name]: replace(GOOD, against={source: Against(why="so", until_s=NOW + 1)})
        for source in Source
    },
}
"""A node that has just this against it, of which nothing else says the same."""


def test_a_good_node_is_a_place_and_a_partner_and_needs_no_exam() -> None:
    assert [use for use in Use if not fits(use, JOB, GOOD, NOW)] == [Use.EXAM]


def test_each_reason_is_met_and_keeps_a_node_from_just_what_the_table_says() -> None:
    assert set(BARRED) == set(Bar)
    for bar, node in BARRED.items():
        for use in Use:
            bars = {reason.bar for reason in fit(use, JOB, node, NOW)}
            assert (bar in bars) == (bar in KEPT_FROM[use]), (bar, use)
            assert fits(use, JOB, node, NOW) == (not bars)


NEVER = {
    Use.PLACE: {Bar.QUARANTINED, Bar.SUSPECT, Bar.GONE, Bar.HELD, Bar.PERSON, Bar.CORDON, Bar.REST},
    Use.BORROW: {Bar.QUARANTINED, Bar.SUSPECT, Bar.GONE, Bar.PERSON, Bar.CORDON, Bar.UNFIT},
    Use.EXAM: {Bar.GONE, Bar.HELD, Bar.RETURNING, Bar.BY_PERSON, Bar.UNMARKED, Bar.TRUSTED},
    Use.PARTNER: {Bar.QUARANTINED, Bar.SUSPECT, Bar.SILENT, Bar.RANKS, Bar.EXAMINED},
    Use.HELPER: {Bar.QUARANTINED, Bar.SUSPECT, Bar.SILENT, Bar.EXAMINED, Bar.HELD, Bar.REST},
    Use.AT_ONCE: {Bar.QUARANTINED, Bar.SUSPECT, Bar.SILENT, Bar.COMING, Bar.CORDON, Bar.DRAIN},
    Use.SELF_TEST: {Bar.SILENT, Bar.COMING, Bar.RANKS, Bar.EXAMINED, Bar.TESTED},
    Use.ASIDE: {Bar.QUARANTINED, Bar.SUSPECT, Bar.SILENT},
}
"""Written again, apart from the table: what must never be used so."""


def test_what_must_never_be_used_is_not() -> None:
    for use, bars in NEVER.items():
        assert [bar for bar in bars if fits(use, JOB, BARRED[bar], NOW)] == [], use


PARTNERS = (Bar.GONE, Bar.CORDON, Bar.PERSON, Bar.DRAIN, Bar.EXECUTOR, Bar.REST, Bar.UNFIT)
"""Against its use as a place; its tests beside others disturb nobody, and cost nobody a node."""


@pytest.mark.parametrize("bar", PARTNERS)
def test_what_others_want_of_a_node_does_not_keep_it_from_helping(bar: Bar) -> None:
    assert fits(Use.PARTNER, JOB, BARRED[bar], NOW)


@pytest.mark.parametrize("bar", [Bar.QUARANTINED, Bar.SUSPECT])
def test_a_node_in_doubt_helps_to_judge_nobody(bar: Bar) -> None:
    assert not fits(Use.PARTNER, JOB, BARRED[bar], NOW)
    assert not fits(Use.PARTNER, None, BARRED[bar], NOW)


def test_each_reason_keeps_a_node_from_something() -> None:
    assert frozenset(Bar) == frozenset().union(*KEPT_FROM.values())


AT_WORK = {Bar.SILENT, Bar.COMING, Bar.RANKS, Bar.EXAMINED, Bar.ASKED, Bar.TESTED}
"""Of what it does at the moment: a place it is all the same."""


def test_each_reason_has_a_word_for_the_node_and_is_told_or_is_named_here() -> None:
    """So that a new one is not shown as free, nor kept from who waits, by being forgotten."""
    wordless = {Bar.LENT, Bar.RETURNING, Bar.REST, Bar.TRUSTED, Bar.BY_PERSON, Bar.UNMARKED}
    wordless |= {Bar.NO_SETUP, Bar.UNFIT, *AT_WORK}
    assert set(STATES) | wordless == set(Bar)
    assert not set(STATES) & wordless
    untold = {Bar.UNKNOWN, Bar.HELD, Bar.TRUSTED, Bar.BY_PERSON, Bar.UNMARKED, Bar.NO_SETUP}
    untold |= AT_WORK
    assert TOLD | untold == set(Bar)
    assert not TOLD & untold


def test_a_reason_speaks_in_the_words_of_who_gave_it() -> None:
    (reason,) = fit(Use.PLACE, JOB, replace(GOOD, name="n1"), NOW)
    assert str(reason) == "no room"
    (reason,) = fit(Use.PLACE, None, replace(GOOD, holding=n.Held(job="other")), NOW)
    assert str(reason) == "other has it"
    (reason,) = fit(Use.PLACE, JOB, BARRED[Bar.RETURNING], NOW)
    assert str(reason) == "it is being given back"


@pytest.mark.parametrize("source", [Source.REST, Source.DRAIN])
def test_what_is_over_by_itself_bars_no_longer(source: Source) -> None:
    node = replace(GOOD, against={source: Against(why="so", until_s=NOW)})
    assert fits(Use.PLACE, JOB, node, NOW)
    assert fits(Use.PLACE, JOB, replace(GOOD, name="n2"), NOW)


def test_what_a_job_has_already_is_no_new_work_for_it() -> None:
    own = replace(
        GOOD, name="n1", holding=n.Held(job="job"), against={Source.CORDON: Against(why="kubectl")}
    )
    assert fits(Use.PLACE, JOB, own, NOW)
    assert {each.bar for each in fit(Use.PLACE, None, own, NOW)} == {Bar.HELD, Bar.CORDON}


@given(st.sampled_from(list(BARRED)), st.sampled_from(list(Use)), st.floats(0, 200))
def test_more_time_takes_no_node_away(bar: Bar, use: Use, now: float) -> None:
    node = BARRED[bar]
    now_bars = {each.bar for each in fit(use, JOB, node, now)}
    assert {each.bar for each in fit(use, JOB, node, math.inf)} <= now_bars

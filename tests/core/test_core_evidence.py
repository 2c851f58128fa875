"""The table of hypotheses: what opens each, what closes it, and what is done about which."""

from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core.evidence import book, same
from holdfast.driver.core.evidence.case import DEFAULT_S, Case, Ways
from holdfast.driver.core.evidence.rules import RULES, STEPS_BACK
from holdfast.driver.core.evidence.table import ORDER, judge
from holdfast.driver.core.state.fact import (
    About,
    Act,
    Bearing,
    Fact,
    FaultClass,
    Hypothesis,
    OfLink,
    OfNode,
    OfVersion,
    Row,
    Site,
    Table,
)
from holdfast.protocol.faults import Blame

NOW = 30 * book.DAY_S
ALL = frozenset(Act)
FREE = frozenset({Act.RESTART, Act.GIVE_UP, Act.EXAM, Act.EXAM_ALL, Act.MOVE_COLD, Act.STEP_BACK})
NODES = [OfNode(name=f"n{k}") for k in range(8)]
HERE = Site(words="SIGSEGV", step=40)


def past(
    node: OfNode | None = NODES[1],
    *,
    site: Site | None = None,
    ago_s: float = 60.0,
    place: int | None = 1,
    done: Act = Act.RESTART,
    held_for: Hypothesis | None = Hypothesis.PASSING,
    what: str = "rank-crashed",
) -> Fact:
    """A fault of the job before."""
    return Fact(
        subject=OfVersion(job="job", number=1),
        what=what,
        bearing=Bearing.CONTEXT,
        at_s=NOW - ago_s,
        about=About(job="job", version=1, node=node, place=place, site=site),
        done=done,
        held_for=held_for,
    )


def case(fault: FaultClass = FaultClass.DIED, *facts: Fact, **more: object) -> Case:
    """A fault at place 1, on n1, of a job of four nodes with free ones beside it."""
    known = Case(
        now=NOW,
        fault=fault,
        nodes=4,
        what="rank-crashed",
        past=facts,
        site=HERE,
        node=NODES[1],
        place=1,
        still_used=frozenset(node.name for node in NODES[:4]),
        ways=Ways(acts=FREE),
    )
    return replace(known, **more)


def chosen(table: Table) -> tuple[Hypothesis | None, Act]:
    return table.chosen, table.act


def why(table: Table, hypothesis: Hypothesis) -> tuple[bool, str]:
    (row,) = [row for row in table.rows if row.hypothesis is hypothesis]
    return row.open, row.why


# ---------------------------------------------------------------- the same


@given(st.integers(1, 12), st.integers(2, 64), st.data())
def test_chance_is_that_of_the_binomial_distribution(
    faults: int, nodes: int, data: st.DataObject
) -> None:
    own = data.draw(st.integers(0, faults))
    share = 1 / nodes
    below = sum(comb(faults, k) * share**k * (1 - share) ** (faults - k) for k in range(own))
    assert same.chance(own, faults, nodes) == pytest.approx(min(1.0, nodes * (1 - below)), abs=1e-9)


@given(st.integers(2, 512))
def test_one_fault_never_stands_out(nodes: int) -> None:
    assert not same.stands_out(1, 1, nodes)


@pytest.mark.parametrize(
    ("own", "faults", "nodes", "out"),
    [(2, 2, 4, True), (2, 2, 2, False), (3, 3, 2, True), (2, 2, 64, True), (2, 9, 4, False)],
)
def test_the_more_nodes_a_job_has_the_sooner_one_stands_out(
    own: int, faults: int, nodes: int, out: bool
) -> None:
    assert same.stands_out(own, faults, nodes) is out


@pytest.mark.parametrize(("faults", "nodes", "out"), [(4, 4, False), (5, 4, True), (9, 3, False)])
def test_two_that_have_all_faults_stand_out_together(faults: int, nodes: int, out: bool) -> None:
    assert same.few_stand_out(2, faults, nodes) is out


def test_two_deaths_before_the_first_step_from_other_starts_are_at_one_site() -> None:
    first, second = Site(words="x", step=4, fresh=True), Site(words="x", step=9, fresh=True)
    assert first.same(second)
    assert not first.same(replace(second, fresh=False))
    assert not first.same(replace(first, words="y"))


def test_what_the_job_got_past_is_the_same_no_more() -> None:
    passed = replace(HERE, passed_s=NOW - 30)
    assert same.at_site([past(site=HERE), past(site=passed)], HERE, NOW) == [past(site=HERE)]


def test_a_standstill_that_was_got_past_lately_counts_still() -> None:
    site = Site(words="evaluate (train.py:31)", passed_s=NOW - 60)
    facts = [past(site=site)]
    assert same.at_site(facts, site, NOW) == facts
    assert same.at_site(facts, site, NOW + book.START_S) == []


# ---------------------------------------------------------------- what is done


@pytest.mark.parametrize("fault", [FaultClass.SAID, FaultClass.DIED])
def test_what_came_once_is_taken_for_passing(fault: FaultClass) -> None:
    assert chosen(judge(case(fault))) == (Hypothesis.PASSING, Act.RESTART)


def test_what_a_script_says_twice_at_one_site_is_the_scripts() -> None:
    table = judge(case(FaultClass.SAID, past(site=HERE)))
    said = "2 of 2 faults came on n1, but not at several places of the script"
    assert why(table, Hypothesis.NODE) == (False, said), "it is more than chance"
    assert chosen(table) == (Hypothesis.USER, Act.GIVE_UP)
    assert (
        table.why == "It ended in the same way twice after step 40: another restart would not help"
    )


def test_it_is_no_nodes_however_often_at_one_site() -> None:
    table = judge(case(FaultClass.SAID, *[past(site=HERE)] * 5))
    assert not why(table, Hypothesis.NODE)[0]


def test_what_only_one_node_says_at_several_sites_is_the_nodes() -> None:
    sites = [Site(words="ValueError", step=step) for step in (3, 9, 17)]
    facts = [past(site=site) for site in sites]
    assert chosen(judge(case(FaultClass.SAID, *facts))) == (Hypothesis.NODE, Act.EXAM)


def test_a_death_that_comes_again_at_one_site_has_its_node_tested_then_left() -> None:
    tested = past(site=HERE, done=Act.EXAM, held_for=Hypothesis.NODE)
    assert chosen(judge(case(FaultClass.DIED, past(site=HERE)))) == (Hypothesis.NODE, Act.EXAM)
    assert judge(case(FaultClass.DIED, past(site=HERE), tested)).act is Act.MOVE_COLD
    assert judge(case(FaultClass.DIED, past(site=HERE), acquitted=True)).act is Act.MOVE_COLD


def test_with_a_warm_standby_the_place_moves_first() -> None:
    warm = Ways(acts=FREE | {Act.MOVE_WARM})
    assert judge(case(FaultClass.DIED, past(site=HERE), ways=warm)).act is Act.MOVE_WARM


SWAP = Ways(acts=FREE | {Act.MOVE_WARM, Act.SWAP})


def test_deaths_at_one_site_on_one_node_are_asked_at_another_place_first_and_once() -> None:
    asked = past(site=HERE, done=Act.SWAP, held_for=Hypothesis.NODE, place=2)
    first = judge(case(FaultClass.DIED, past(site=HERE), ways=SWAP))
    assert chosen(first) == (Hypothesis.NODE, Act.SWAP)
    assert judge(case(FaultClass.DIED, past(site=HERE), asked, ways=SWAP)).act is Act.MOVE_WARM


@pytest.mark.parametrize(
    ("fault", "sites"),
    [
        (FaultClass.DIED, [Site(words="SIGSEGV", step=12), HERE]),
        (FaultClass.SAID, [Site(words="SIGSEGV", step=12), HERE]),
        (FaultClass.DIED, [Site(words="SIGSEGV", step=12)]),
    ],
)
def test_what_came_on_its_node_elsewhere_too_asks_no_other_place(
    fault: FaultClass, sites: list[Site]
) -> None:
    facts = [past(site=site) for site in sites]
    assert judge(case(fault, *facts, ways=SWAP)).act is Act.MOVE_WARM


NOWHERE = Ways(acts=frozenset({Act.RESTART, Act.GIVE_UP}))


def went_along(*more: Fact, ways: Ways = NOWHERE, soon: bool = False) -> Table:
    asked = past(site=HERE, done=Act.SWAP, held_for=Hypothesis.NODE, place=2)
    return judge(
        case(FaultClass.DIED, past(site=HERE, place=2), asked, *more, ways=ways, soon=soon)
    )


def test_what_went_along_with_its_node_to_another_place_is_not_the_scripts() -> None:
    said = "it came on n1 again, at another place of the job"
    assert why(went_along(), Hypothesis.USER) == (False, said)
    assert why(went_along(past(site=HERE)), Hypothesis.USER) == (False, said)


def test_a_job_that_cannot_do_without_the_node_that_it_went_along_with_ends_for_it() -> None:
    assert chosen(went_along()) == (Hypothesis.NODE, Act.RESTART)
    table = went_along(past(site=HERE))
    assert chosen(table) == (Hypothesis.NODE, Act.GIVE_UP)
    assert "no other node may take its place, and the job gets no further" in table.why


def test_a_node_that_it_went_along_with_is_left_where_another_is_to_be_had() -> None:
    ways = Ways(acts=NOWHERE.acts | {Act.MOVE_COLD})
    assert chosen(went_along(past(site=HERE), ways=ways)) == (Hypothesis.NODE, Act.MOVE_COLD)


def test_a_job_that_will_soon_do_without_the_node_does_not_end_for_it() -> None:
    table = went_along(past(site=HERE), soon=True)
    assert chosen(table) == (Hypothesis.NODE, Act.RESTART)


@pytest.mark.parametrize("soon", [False, True])
def test_deaths_of_one_node_are_the_scripts_sooner_where_it_gets_no_other(soon: bool) -> None:
    facts, alone = [past(site=HERE)], {"nodes": 1, "site": HERE, "ways": NOWHERE}
    table = judge(case(FaultClass.DIED, *facts, soon=soon, **alone))
    assert (table.chosen is Hypothesis.USER) is not soon


def test_what_came_on_other_nodes_too_ends_no_job_for_one_of_them() -> None:
    table = went_along(past(NODES[3], site=HERE, place=0))
    assert chosen(table) == (Hypothesis.NODE, Act.RESTART)


def test_a_version_is_gone_back_to_before_a_job_ends_for_a_node() -> None:
    asked = past(site=HERE, done=Act.SWAP, held_for=Hypothesis.NODE, place=2)
    facts = [past(site=HERE, place=2), asked, past(site=HERE)]
    table = judge(case(FaultClass.DIED, *facts, ways=NOWHERE, before=1))
    assert chosen(table) == (Hypothesis.VERSION, Act.VERSION_BEFORE)


def test_while_a_node_stands_out_its_faults_are_not_the_versions() -> None:
    sites = [Site(words="SIGSEGV", step=step) for step in (3, 9, 17)]
    facts = [past(site=site) for site in sites]
    rates = {"rate": same.Rate(4, 1_200.0), "rate_before": same.Rate(0, 9 * book.HOUR_S)}
    table = judge(case(FaultClass.DIED, *facts, ways=NOWHERE, before=1, **rates))
    assert chosen(table) == (Hypothesis.NODE, Act.RESTART)
    assert not why(table, Hypothesis.VERSION)[0]


def test_places_that_were_not_swapped_are_asked_again_until_it_comes_too_late() -> None:
    not_done = past(site=HERE, done=Act.RESTART, held_for=Hypothesis.NODE)
    assert swaps(past(site=HERE), not_done).act is Act.SWAP
    assert swaps(past(site=HERE), not_done, not_done).act is not Act.SWAP


def swaps(*facts: Fact, fault: FaultClass = FaultClass.DIED, **more: object) -> Table:
    """Of a job whose nodes may change places."""
    return judge(case(fault, *facts, ways=Ways(acts=FREE | {Act.SWAP}), **more))


def test_deaths_at_one_site_alone_have_the_node_change_places_first() -> None:
    assert chosen(swaps(past(site=HERE))) == (Hypothesis.NODE, Act.SWAP)


def test_what_points_at_the_node_itself_asks_for_no_swap() -> None:
    elsewhere = replace(HERE, step=7)
    assert swaps(past(site=HERE), past(site=elsewhere)).act is Act.EXAM
    assert swaps(past(site=HERE), suspected="its peers lost it").act is Act.EXAM
    assert swaps(past(site=HERE), last=True).act is not Act.SWAP
    sites = [Site(words="ValueError", step=step) for step in (3, 9, 17)]
    assert swaps(*[past(site=site) for site in sites], fault=FaultClass.SAID).act is Act.EXAM


def test_places_change_once_for_one_site() -> None:
    asked = past(site=HERE, done=Act.SWAP, held_for=Hypothesis.NODE)
    assert swaps(past(site=HERE), asked).act is Act.EXAM


def test_what_stays_with_the_place_is_no_nodes() -> None:
    asked = past(NODES[5], site=HERE, done=Act.SWAP, held_for=Hypothesis.NODE)
    table = swaps(past(NODES[5], site=HERE), asked)
    assert why(table, Hypothesis.NODE) == (False, "the same came at this place on another node")


def test_what_goes_along_to_another_place_is_never_the_scripts() -> None:
    asked = past(site=HERE, place=3, done=Act.SWAP, held_for=Hypothesis.NODE)
    before = [past(site=HERE, place=3)] * 3
    for acts in (FREE, frozenset({Act.RESTART, Act.GIVE_UP})):
        table = judge(case(FaultClass.DIED, *before, asked, ways=Ways(acts=acts)))
        assert table.chosen is Hypothesis.NODE
        told = "it came on n1 again, at another place of the job"
        assert why(table, Hypothesis.USER) == (False, told)
    still = replace(asked, about=replace(asked.about, place=1))
    assert why(judge(case(FaultClass.DIED, *before, still)), Hypothesis.USER)[0]


def test_what_was_measured_says_how_to_act_on_one_hypothesis() -> None:
    slow = Ways(acts=FREE, cost_s={Act.EXAM: 500.0})
    assert judge(case(FaultClass.DIED, past(site=HERE), ways=slow)).act is Act.MOVE_COLD


def test_what_followed_the_job_to_another_node_is_no_nodes() -> None:
    facts = [past(NODES[5], site=HERE), past(NODES[5], site=HERE, done=Act.MOVE_COLD)]
    table = judge(case(FaultClass.DIED, *facts))
    assert why(table, Hypothesis.NODE) == (False, "the same came at this place on another node")


@pytest.mark.parametrize("words", ["SIGBUS", HERE.words])
def test_what_came_at_this_place_on_another_node_at_another_site_clears_no_node(words: str) -> None:
    elsewhere = past(NODES[5], site=Site(words=words, step=12), done=Act.MOVE_COLD)
    table = judge(case(FaultClass.DIED, elsewhere, past(site=HERE)))
    assert why(table, Hypothesis.NODE)[0]


def test_the_fourth_death_at_one_site_with_nothing_else_open_is_the_scripts() -> None:
    facts = [past(NODES[5], site=HERE)] * 3
    third = judge(case(FaultClass.DIED, *facts[:2], site=HERE))
    assert third.chosen is None
    said = "it came 3 times after step 40, and it takes 4 times to put it down to the script"
    assert why(third, Hypothesis.USER) == (False, said)
    assert chosen(judge(case(FaultClass.DIED, *facts))) == (Hypothesis.USER, Act.GIVE_UP)


def test_code_that_crashes_anywhere_moves_nothing() -> None:
    sites = [Site(words="SIGSEGV", step=step) for step in range(12)]
    facts = [past(NODES[k % 4], site=site, place=k % 4) for k, site in enumerate(sites)]
    assert chosen(judge(case(FaultClass.DIED, *facts))) == (Hypothesis.PASSING, Act.RESTART)


def test_a_new_version_whose_faults_are_everywhere_gives_way_to_the_one_before() -> None:
    sites = [Site(words="SIGSEGV", step=step) for step in range(3)]
    facts = [past(NODES[k], site=site, place=k) for k, site in enumerate(sites)]
    rates = {"rate": same.Rate(4, 1_200.0), "rate_before": same.Rate(1, 9 * book.HOUR_S)}
    table = judge(case(FaultClass.DIED, *facts, before=1, **rates))
    assert chosen(table) == (Hypothesis.VERSION, Act.VERSION_BEFORE)
    said = "faults come more often: 4 in 20 min of running, and 1 in 9 h with version 1"
    assert why(table, Hypothesis.VERSION) == (True, said)


def test_a_new_version_whose_faults_are_as_often_as_before_is_kept() -> None:
    sites = [Site(words="SIGSEGV", step=step) for step in range(3)]
    facts = [past(NODES[k], site=site, place=k) for k, site in enumerate(sites)]
    rates = {"rate": same.Rate(4, 20 * book.HOUR_S), "rate_before": same.Rate(3, 24 * book.HOUR_S)}
    table = judge(case(FaultClass.DIED, *facts, before=1, **rates))
    assert chosen(table) == (Hypothesis.PASSING, Act.RESTART)
    said = "that may be chance: 4 in 20 h of running, and 3 in 24 h with version 1"
    assert why(table, Hypothesis.VERSION) == (False, said)


@pytest.mark.parametrize(
    ("own", "before", "nodes", "more"),
    [
        ((3, 0.3), (0, 12.0), 4, True),  # minutes after the edit, and never before
        ((3, 0.3), (0, 0.1), 4, True),  # what ran before for only a while is not all that is known
        ((3, 0.3), (0, 0.1), 512, False),
        ((6, 0.6), (0, 0.1), 512, True),
        ((3, 12.0), (40, 160.0), 512, False),
        ((42, 168.0), (42, 168.0), 512, False),
        ((126, 168.0), (42, 168.0), 512, True),
        ((3, 160.0), (0, 168.0), 64, False),
        ((5, 0.8), (0, 0.16), 256, False),  # of chance twice in a thousand, and one fault later
        ((6, 1.1), (0, 0.16), 256, True),
        ((7, 1.5), (0, 0.16), 256, False),
    ],
)
def test_a_version_is_worse_where_its_faults_come_more_often_than_by_chance(
    own: tuple[int, float], before: tuple[int, float], nodes: int, more: bool
) -> None:
    rates = (same.Rate(faults, hours * book.HOUR_S) for faults, hours in (own, before))
    assert same.more_often(*rates, nodes) is more


@pytest.mark.parametrize("every_h", [1.5, 3.0, 6.0])
def test_a_healthy_job_of_512_nodes_keeps_what_its_people_made_of_it(every_h: float) -> None:
    dice, left = Random(f"512 nodes, {every_h}"), 0
    for _ in range(200):
        for ran_h in (0.2, 24.0, 168.0):
            before = same.Rate(len(faults_h(dice, every_h, ran_h)), ran_h * book.HOUR_S)
            times = faults_h(dice, every_h, 168.0)
            rates = (same.Rate(k, at_h * book.HOUR_S) for k, at_h in enumerate(times, 1) if k >= 3)
            left += any(same.more_often(each, before, 512) for each in rates)
    assert left <= 600 // 50, "one edit in fifty, each looked at after each fault of a week"


def faults_h(dice: Random, every_h: float, until_h: float) -> list[float]:
    """When they come, in hours."""
    times = [dice.expovariate(1 / every_h)]
    while times[-1] < until_h:
        times.append(times[-1] + dice.expovariate(1 / every_h))
    return times[:-1]


def test_what_kills_ranks_before_their_first_step_twice_is_what_they_started_from() -> None:
    fresh = Site(words="ValueError", step=40, fresh=True)
    table = judge(case(FaultClass.SAID, past(site=fresh), site=fresh, restored=True))
    assert chosen(table) == (Hypothesis.POINT, Act.STEP_BACK)
    points = [replace(fresh, step=40 - k) for k in range(STEPS_BACK)]
    again = [past(site=each, held_for=Hypothesis.POINT) for each in points]
    now = replace(fresh, step=40 - STEPS_BACK)
    older = judge(case(FaultClass.SAID, past(site=fresh), *again, site=now, restored=True))
    assert chosen(older) == (Hypothesis.USER, Act.GIVE_UP)


def test_another_copy_of_a_step_is_no_older_one_and_clears_nothing() -> None:
    fresh = replace(HERE, step=40, fresh=True)
    copy = past(site=fresh, done=Act.STEP_BACK, held_for=Hypothesis.POINT)
    again = case(FaultClass.DIED, past(site=fresh), copy, site=fresh, restored=True)
    assert chosen(judge(again)) == (Hypothesis.POINT, Act.STEP_BACK)
    table = judge(replace(again, site=replace(fresh, step=39)))
    assert why(table, Hypothesis.POINT) == (
        False,
        "an older one led to the same, and all of it came on n1",
    )


def test_who_ends_with_exit_code_0_has_read_its_restore_point_well() -> None:
    fresh = replace(HERE, step=0, fresh=True)
    known = case(FaultClass.SAID, past(site=fresh), site=fresh, restored=True)
    assert why(judge(known), Hypothesis.POINT)[0]
    closed = why(judge(replace(known, what="ended-early")), Hypothesis.POINT)
    assert closed == (False, "who ends with exit code 0 has read it well")


def test_standstills_of_two_nodes_in_turn_are_of_the_way_between_them() -> None:
    facts = [past(NODES[k], what="hang", place=k) for k in (1, 2, 1, 2, 1)]
    now = case(FaultClass.DIED, *facts, site=None, hang=True, what="hang", node=NODES[2], place=2)
    assert judge(replace(now, past=facts[:2])).chosen is Hypothesis.PASSING, "it may be chance"
    assert chosen(judge(now)) == (Hypothesis.LINK, Act.MOVE_COLD)


def test_nodes_that_a_place_was_on_one_after_the_other_are_no_pair() -> None:
    facts = [past(NODES[k], what="hang") for k in (6, 6, 1)]
    now = case(FaultClass.DIED, *facts, site=None, hang=True, what="hang")
    assert not why(judge(now), Hypothesis.LINK)[0]


def test_a_standstill_of_nobody_that_comes_again_has_all_nodes_tested_once() -> None:
    stood = past(None, what="no-progress")
    now = case(FaultClass.DIED, stood, site=None, hang=True, what="no-progress", node=None)
    assert chosen(judge(now)) == (Hypothesis.GROUP, Act.EXAM_ALL)
    tested = past(None, what="no-progress", held_for=Hypothesis.GROUP)
    assert judge(replace(now, past=(stood, tested))).chosen is None


def test_ranks_that_run_are_given_more_time_then_another_node_then_are_the_scripts() -> None:
    site = Site(words="evaluate (train.py:31), step 40")
    stood = past(site=site)
    now = case(FaultClass.STOOD, site=site, hang=True)
    assert chosen(judge(replace(now, past=(stood,) * 2))) == (Hypothesis.PAUSE, Act.RESTART)
    assert chosen(judge(replace(now, past=(stood,) * 3))) == (Hypothesis.NODE, Act.MOVE_COLD)
    moved = (*[past(NODES[5], site=site)] * 3, past(NODES[5], site=site, done=Act.MOVE_COLD))
    assert chosen(judge(replace(now, past=moved))) == (Hypothesis.USER, Act.GIVE_UP)


def test_who_does_not_see_well_accuses_nobody() -> None:
    table = judge(
        case(FaultClass.DIED, past(site=HERE), blind="3 of its 4 nodes are silent at once")
    )
    assert chosen(table) == (Hypothesis.BLIND, Act.WAIT)


def test_explicit_evidence_comes_before_all_else_but_a_script_that_cannot_start() -> None:
    table = judge(case(FaultClass.DIED, convicted="XID 79", blind="the driver has just come back"))
    assert chosen(table) == (Hypothesis.NODE, Act.REPLACE)
    table = judge(case(FaultClass.DIED, convicted="XID 79", hopeless="it cannot be started"))
    assert chosen(table) == (Hypothesis.USER, Act.GIVE_UP)


def test_a_signal_from_outside_is_never_the_scripts_whatever_its_budget_says() -> None:
    facts = [past(NODES[5], site=HERE)] * 9
    assert judge(case(FaultClass.DIED, *facts, outside=True)).chosen is None


# ---------------------------------------------------------------- whatever the case

sites = st.none() | st.builds(
    Site, words=st.sampled_from("xy"), step=st.integers(0, 2), fresh=st.booleans()
)
facts_of_jobs = st.lists(
    st.builds(
        past,
        st.none() | st.sampled_from(NODES),
        site=sites,
        ago_s=st.floats(0, 20 * book.DAY_S),
        place=st.integers(0, 3),
        done=st.sampled_from(Act),
        held_for=st.none() | st.sampled_from(Hypothesis),
        what=st.sampled_from(["hang", "rank-crashed"]),
    ),
    max_size=12,
)
acts = st.sets(st.sampled_from(Act)).map(lambda some: frozenset(some) | {Act.RESTART, Act.GIVE_UP})
cases = st.builds(
    lambda fault, facts, ways, **more: case(fault, *facts, ways=Ways(acts=ways), **more),
    st.sampled_from(FaultClass),
    facts_of_jobs,
    acts,
    site=sites,
    node=st.none() | st.sampled_from(NODES),
    nodes=st.integers(1, 512),
    hang=st.booleans(),
    restored=st.booleans(),
    acquitted=st.booleans(),
    outside=st.booleans(),
    suspected=st.sampled_from(["", "it hung again"]),
    cut_off=st.sampled_from([(), ("n1", "n2")]),
    before=st.none() | st.just(1),
)


def stuck(row: Row) -> bool:
    """It is a node, or a link, that the job cannot leave."""
    return row.hypothesis in (Hypothesis.NODE, Hypothesis.LINK) and row.act is Act.RESTART


@given(cases)
def test_what_is_chosen_is_the_first_that_is_open_and_says_why(each: Case) -> None:
    table = judge(each)
    assert [row.hypothesis for row in table.rows] == list(ORDER[each.fault])
    assert all(row.why for row in table.rows)
    still = [row for row in table.rows if row.open]
    first = next((row for row in still if not stuck(row)), next(iter(still), None))
    assert table.chosen == (first.hypothesis if first else None)
    assert all((row.act is not None) == row.open for row in table.rows)


@given(cases)
def test_no_place_moves_where_none_may_and_no_innocent_is_replaced(each: Case) -> None:
    table = judge(each)
    assert table.act is not Act.REPLACE, "nothing convicts"
    if table.act in book.MOVES | {Act.STEP_BACK}:
        assert table.act in each.ways.acts


@given(cases)
def test_a_job_ends_only_for_what_came_at_one_site(each: Case) -> None:
    if judge(each).act is Act.GIVE_UP:
        assert each.recurred


@given(cases)
def test_a_node_is_not_tested_again_before_an_hour_is_over(each: Case) -> None:
    tested = any(
        fact.done is Act.EXAM and fact.about.node == each.node and NOW - fact.at_s < book.START_S
        for fact in each.past
    )
    if tested and not each.convicted:
        table = judge(each)
        assert table.act is not Act.EXAM


def test_each_hypothesis_has_a_rule_and_each_act_a_cost() -> None:
    assert RULES.keys() == set(Hypothesis)
    assert DEFAULT_S.keys() == ALL


# ---------------------------------------------------------------- the book


def of_node(bearing: Bearing, job: str = "a", version: int = 1, ago_s: float = 0.0) -> Fact:
    about = About(job=job, version=version)
    return Fact(subject=NODES[0], what="x", bearing=bearing, at_s=NOW - ago_s, about=about)


def test_a_node_is_accused_once_by_each_version_of_a_job() -> None:
    facts = [of_node(Bearing.ACCUSES), of_node(Bearing.ACCUSES, ago_s=9.0)]
    assert book.accusers(facts, NOW) == 1
    assert book.accusers([*facts, of_node(Bearing.ACCUSES, version=2)], NOW) == 2
    edits = [of_node(Bearing.ACCUSES, version=k) for k in range(9)]
    assert book.accusers(edits, NOW) == book.OF_ONE_JOB < book.ACCUSERS
    assert book.accusers([*edits, of_node(Bearing.ACCUSES, job="b")], NOW) == book.ACCUSERS
    assert book.accusers([of_node(Bearing.ACCUSES, ago_s=8 * book.DAY_S)], NOW) == 0
    assert book.accusers([of_node(Bearing.CONTEXT)] * 9, NOW) == 0


def test_suspicion_halves_in_a_week_and_by_tests_that_find_nothing_but_never_goes_by_them() -> None:
    accused = [of_node(Bearing.ACCUSES, job) for job in "abc"]
    assert book.suspicion(accused, NOW) == pytest.approx(3.0)
    assert book.suspicion(accused, NOW + 7 * book.DAY_S) == pytest.approx(1.5)
    cleared = [*accused, *[of_node(Bearing.ACQUITS)] * 20]
    assert book.suspicion(cleared, NOW) == pytest.approx(1.5)
    later = of_node(Bearing.ACCUSES, "d", ago_s=-5.0)
    assert book.suspicion([*cleared, later], NOW + 5.0) == pytest.approx(4.0, abs=1e-3)


def test_what_two_nodes_say_of_the_way_between_them_halves_in_a_day() -> None:
    link = replace(past(), subject=OfLink(source=NODES[0], target=NODES[1]), at_s=NOW - book.DAY_S)
    assert book.weight(link, NOW) == pytest.approx(0.5)
    assert book.counts(replace(link, at_s=NOW - 0.9 * book.DAY_S), NOW)
    assert not book.counts(replace(link, at_s=NOW - 1.1 * book.DAY_S), NOW)


@given(facts_of_jobs)
def test_what_is_kept_is_bounded_in_order_and_nothing_young_is_lost(facts: list[Fact]) -> None:
    kept = book.kept(facts * 20, NOW)
    of_versions = sum(fact.done is Act.VERSION_BEFORE for fact in kept)  # which have no age
    assert len(kept) <= book.KEPT + of_versions
    assert list(kept) == sorted(kept, key=lambda fact: (fact.at_s, fact.entry))
    assert book.kept(kept, NOW) == kept
    young = [fact for fact in facts if book.counts(fact, NOW)]
    assert len(book.kept(young, NOW)) == len(young)


def test_what_was_paid_is_kept_as_long_as_a_budget_counts_it() -> None:
    """A window of 60 days forgot after 28, and one of a week all but 128 after a day."""
    old = of_node(Bearing.CONTEXT, ago_s=50 * book.DAY_S)
    paid = [replace(old, payer=Blame.USER)] * (2 * book.KEPT)
    assert len(book.kept([old, *paid], NOW, paid_s=60 * book.DAY_S)) == len(paid)
    assert book.kept([old, *paid], NOW, paid_s=book.DAY_S) == ()


def test_reasons_say_only_what_is_known() -> None:
    """That nothing came twice cannot be said of a fault whose place nobody knows, and that all
    came on the only node says nothing of it."""
    unknown = case(FaultClass.SAID, past(), site=None)
    assert RULES[Hypothesis.USER](unknown).why.endswith(
        ": it does not tell where in the script it was"
    )
    known = case(FaultClass.SAID, past(), site=HERE)
    assert RULES[Hypothesis.USER](known).why.endswith(": nothing came at this place before")
    first = case(FaultClass.SAID, site=HERE)
    assert RULES[Hypothesis.USER](first).why == "no sign of it: nothing like it came before"
    only = case(FaultClass.SAID, past(), nodes=1, site=HERE)
    alone = "no sign of it: a job of one node has all its faults there"
    assert RULES[Hypothesis.NODE](only).why == alone


def test_the_end_says_no_step_where_none_was_told_of() -> None:
    """A kind of fault stands for its place where nobody sees steps: the script may be far."""
    unseen, frame = Site(words="rank-crashed", fresh=True), Site(words="all_reduce #9, step 9")
    for site, told in (
        (unseen, ", and is not known to have got further"),
        (frame, f" ({frame.words})"),
    ):
        table = judge(case(FaultClass.SAID, past(site=site), site=site))
        assert table.why.startswith(f"It ended in the same way twice{told}: ")


def test_a_version_is_left_where_faults_began_with_it() -> None:
    well, soon = same.Rate(0, 3_600.0), same.Rate(2, 120.0)
    rates = {"before": 1, "rate_before": well, "rate": soon}
    edited = case(FaultClass.DIED, past(NODES[2]), nodes=8, **rates)
    assert chosen(judge(edited)) == (Hypothesis.VERSION, Act.VERSION_BEFORE)
    late = {"rate": same.Rate(2, 18_000.0), "rate_before": same.Rate(1, 3_600.0)}
    for more in (late, {"before": None}):
        assert judge(replace(edited, **more)).chosen is Hypothesis.PASSING, "that may be chance"


def test_what_cannot_be_left_is_named_where_nothing_else_is_open() -> None:
    facts = [past(site=replace(HERE, step=step)) for step in (1, 2, 3)]
    stuck = case(FaultClass.DIED, *facts, acquitted=True, ways=Ways())
    assert chosen(judge(stuck)) == (Hypothesis.NODE, Act.RESTART)
    again = replace(stuck, past=tuple(past(site=HERE) for _ in range(3)))
    assert judge(again).chosen is Hypothesis.USER, "a script that dies at one place may be wrong"
    both = replace(again, past=(*again.past, *(facts * 2)))
    assert judge(both).chosen is Hypothesis.NODE, "but not where the node is bad elsewhere, too"


@pytest.mark.parametrize(("often", "named"), [(3, None), (4, NODES[1])])
def test_a_standstill_of_nobody_is_put_down_to_a_node_only_by_far_more_than_chance(
    often: int, named: OfNode | None
) -> None:
    assert same.usual([NODES[1]] * often, nodes=4) == named


def test_two_nodes_that_do_not_reach_each_other_are_no_word_against_the_script() -> None:
    again = [past(site=HERE) for _ in range(3)]
    user = RULES[Hypothesis.USER]
    assert user(case(FaultClass.DIED, *again)).open
    assert not user(case(FaultClass.DIED, *again, apart=True, cut_off=("n0", "n1"))).open


def test_what_comes_where_two_nodes_are_known_to_be_apart_is_not_taken_for_passing() -> None:
    once = judge(case(FaultClass.DIED, cut_off=("n0", "n1")))
    assert chosen(once) == (Hypothesis.LINK, Act.MOVE_COLD)

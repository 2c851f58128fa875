"""Ranks in different collectives at one number: the odd one is named, and equal ones never are."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Expectation, collective_diverged
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.protocol.messages import (
    Collective,
    GroupProgress,
    Heartbeat,
    RankProgress,
    Recent,
    Seat,
)

Called = Callable[[int, int], Collective]
"""What a rank called at a number."""


def alike(rank: int, number: int) -> Collective:
    return Collective(number, "all_reduce" if number % 3 else "broadcast", number % 5)


def at_number(number: int, rank: int, collective: Collective) -> Called:
    def called(each: int, at: int) -> Collective:
        return collective if (each, at) == (rank, number) else alike(each, at)

    return called


def standing(cluster: Any, called: Called, at: dict[int, int] | None = None) -> None:
    """All stand still at number 57, or at their own, and tell of their last sixteen."""

    def alter(seen: RankProgress) -> RankProgress:
        last = (at or {}).get(seen.rank, 57)
        numbers = range(max(1, last - 15), last + 1)
        recent = Recent(members=1, collectives=tuple(called(seen.rank, n) for n in numbers))
        group = replace(seen.groups[0], enqueued=last, done=last - 1)
        return replace(seen, step=28, groups=(group,), recent=(recent,))

    cluster.running, cluster.alter = False, alter


def trained(cluster: Any, nodes: int) -> Any:
    made = cluster(nodes)
    assert made.go(5) == []
    return made


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (Collective(57, "barrier", 0), "barrier where its peers called broadcast"),
        (Collective(57, "broadcast", 9), "broadcast of another size than its peers"),
    ],
)
def test_who_calls_another_one_is_named_and_then_holds_the_job_up(
    cluster: Any, mine: Collective, said: str
) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, mine))
    reported, *_, acted = two.go(40)
    assert (reported.kind, reported.rank, reported.node) == (Kind.COLLECTIVE_MISMATCH, 3, "node-1")
    assert (reported.weight, fault_of(reported).blame) == (Weight.REPORT, Blame.USER)
    sentence = f"rank 3 called {said} as collective #57 of group [0, 1, 2, 3]"
    assert reported.summary == f"{sentence}: these never meet"
    assert (acted.kind, acted.rank, fault_of(acted).blame) == (
        Kind.COLLECTIVE_MISMATCH,
        3,
        Blame.USER,
    )
    assert acted.weight is Weight.RESTART
    assert acted.summary == f"rank 3 on node-1 holds the job up: {sentence}"
    assert acted.fix == collective_diverged.FIX


def test_what_can_never_end_is_no_pause_and_acted_on_at_the_floor(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    stood = two.alter
    two.alter = lambda seen: replace(stood(seen), frame="evaluate (train.py:31)", frame_still_s=0.1)
    assert [each.weight for each in two.go(4.5)] == [Weight.REPORT]
    (acted,) = two.go(1.5)
    assert (acted.kind, acted.weight) == (Kind.COLLECTIVE_MISMATCH, Weight.RESTART)


@pytest.mark.parametrize("mine", [Collective(57, "barrier", 0), Collective(57, "broadcast", 9)])
@pytest.mark.parametrize("nodes", [1, 2])
def test_also_of_a_job_of_which_no_step_was_ever_seen(
    cluster: Any, mine: Collective, nodes: int
) -> None:
    """A loop without an optimizer, or ranks that begin: its first step may take ten minutes."""
    young = cluster(nodes, best_step=40)
    standing(young, at_number(57, 1, mine))
    stood = young.alter
    young.alter = lambda seen: replace(stood(seen), step=0)
    reported, acted = young.go(8)
    assert (reported.weight, acted.weight) == (Weight.REPORT, Weight.RESTART)
    assert acted.kind is Kind.COLLECTIVE_MISMATCH


@pytest.mark.parametrize("apart", ["one has done it", "one is not there yet"])
def test_where_it_may_end_yet_it_is_a_standstill_as_any(cluster: Any, apart: str) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    stood, done = two.alter, apart == "one has done it"

    def alter(seen: RankProgress) -> RankProgress:
        seen = stood(seen)
        (group,) = seen.groups
        at = 58 if done else 56
        group = replace(group, enqueued=at, done=at - done) if seen.rank == 0 else group
        return replace(seen, groups=(group,))

    two.alter = alter
    assert all(each.weight is Weight.REPORT for each in two.go(14))
    assert [each.weight for each in two.go(3)] == [Weight.RESTART]


@pytest.mark.parametrize(("pause", "acts"), [("", True), ("saves", False)])
def test_of_nccl_nobody_knows_what_is_done_and_who_pauses_came_through(
    cluster: Any, pause: str, acts: bool
) -> None:
    """A group with two backends: a thread may call its own a little sooner or later."""
    two = trained(cluster, 2)
    standing(two, at_number(50, 3, Collective(50, "gather", 0)))
    stood = two.alter

    def alter(seen: RankProgress) -> RankProgress:
        seen = stood(seen)
        group = replace(seen.groups[0], done=0)
        return replace(seen, groups=(group,), partial=("done",), pause=pause, frame="save (a.py:3)")

    two.alter = alter
    assert any(each.weight is Weight.RESTART for each in two.go(12)) is acts


def test_again_and_again_it_is_the_script_and_not_the_node(cluster: Any) -> None:
    two = trained(cluster, 2)
    for epoch in (2, 3, 4):
        standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
        assert two.go(40)[-1].weight is Weight.RESTART
        two.epoch, two.running, two.alter = epoch, True, lambda seen: seen
        two.expect()
        two.go(5)


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (Collective(57, "barrier", 0), "rank 0 called broadcast and rank 1 barrier as"),
        (Collective(57, "broadcast", 9), "ranks 0 and 1 called broadcast of different sizes as"),
    ],
)
def test_of_two_ranks_neither_is_named_and_both_are_told(
    cluster: Any, mine: Collective, said: str
) -> None:
    one = trained(cluster, 1)
    standing(one, at_number(57, 1, mine))
    reported, *_, acted = one.go(40)
    assert (reported.rank, acted.rank, acted.node) == (None, None, None)
    assert reported.summary.startswith(said)
    assert acted.kind is Kind.COLLECTIVE_MISMATCH


def test_the_first_difference_counts_and_not_what_follows_from_it(cluster: Any) -> None:
    """Rank 2 left one out: from there on it is one ahead of all others."""

    def called(rank: int, number: int) -> Collective:
        shift = rank == 2 and number >= 50
        return alike(rank, number + shift)._replace(number=number)

    two = trained(cluster, 2)
    standing(two, called)
    assert "as collective #50 of" in two.go(5)[0].summary


def test_who_does_not_count_all_of_its_own_is_not_compared(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    told = two.alter
    two.alter = lambda seen: replace(told(seen), partial=("collectives",) if seen.rank == 3 else ())
    assert [each.kind for each in two.go(4)] == []


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_the_odd_one_is_named_whoever_tells_first(cluster: Any, odd: int) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, odd, Collective(57, "barrier", 0)))
    assert two.go(5)[0].rank == odd


def test_of_two_halves_nobody_is_named_before_all_have_told(cluster: Any) -> None:
    def called(rank: int, number: int) -> Collective:
        return Collective(57, "barrier", 0) if rank > 1 and number == 57 else alike(rank, number)

    two = trained(cluster, 2)
    standing(two, called)
    reported, *_, acted = two.go(12)
    assert (reported.rank, reported.node) == (None, None)
    both = "rank 0 called broadcast and rank 2 barrier as"
    assert reported.summary.startswith(both)
    assert f"s: {both}" in acted.summary
    assert "nobody" not in acted.summary
    assert both in " ".join(each.text for each in acted.evidence)
    assert "; in collectives that never meet for " in acted.evidence[0].text


def test_of_a_rank_that_does_not_run_either_the_calls_of_both_are_told(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(
        two,
        lambda rank, n: Collective(57, "barrier", 0) if rank > 1 and n == 57 else alike(rank, n),
    )
    told = two.alter
    two.alter = lambda seen: replace(told(seen), silent_s=4.0 if seen.rank == 0 else 0.0)
    *_, acted = two.go(12)
    assert "s: rank 0 called broadcast and rank 2 barrier as" in acted.summary


def test_what_is_told_again_counts_once_and_nothing_is_kept_of_each_rank_but_a_number() -> None:
    same = tuple(alike(0, number) for number in range(1, 17))
    seats = tuple(Seat(rank=r, local_rank=0, node="a", address="") for r in range(4))
    expected = Expectation(job="job", epoch=1, seats=seats, hang_floor_s=5, first_step_s=60)
    state = collective_diverged.Unlike()
    for rank in (0, 1, 1, 1):
        state, found = collective_diverged.judge(state, told(rank, 16, same), expected)
        assert found == ()
    (numbers,) = state.groups.values()
    assert numbers.told == {0: 16, 1: 16}
    assert [numbers.called[each.number][each].count for each in same] == [2] * 16


def told(rank: int, at: int, called: tuple[Collective, ...]) -> Heartbeat:
    seen = RankProgress(
        rank=rank,
        epoch=1,
        job="job",
        groups=(GroupProgress(members=1, kind="", enqueued=at, done=at),),
        recent=(Recent(members=1, collectives=called),),
    )
    return Heartbeat(node="a", incarnation="a", sequence=rank, uptime_s=0, ranks=(seen,))


def test_where_the_job_goes_on_all_the_same_nobody_is_odd_any_more(cluster: Any) -> None:
    """What its ranks call may differ; a later pause is nobody's mismatch, and not restarted."""
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    assert [each.kind for each in two.go(4)] == [Kind.COLLECTIVE_MISMATCH]
    two.running, two.alter = True, lambda seen: seen
    (clear,) = two.go(5)
    assert (clear.kind, clear.weight) == (Kind.GOES_ON, Weight.REPORT)
    assert clear.summary.startswith("job goes on, though rank 3 called barrier")
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    assert Kind.COLLECTIVE_MISMATCH not in [each.kind for each in two.go(40)]


def test_a_step_that_was_under_way_clears_nobody(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    told = two.alter
    two.alter = lambda seen: replace(told(seen), step=27 if seen.rank == 0 else 28)
    assert len(two.go(4)) == 1
    two.alter = told
    assert two.go(40)[-1].kind is Kind.COLLECTIVE_MISMATCH


@given(
    ats=st.lists(st.integers(1, 60), min_size=2, max_size=6),
    odd=st.none() | st.integers(1, 60),
    order=st.randoms(use_true_random=False),
)
def test_ranks_that_agree_are_never_named_wherever_each_of_them_stands(
    ats: list[int], odd: int | None, order: Any
) -> None:
    """And the last of them is, where most of its peers tell of the same number."""
    last = len(ats) - 1
    seats = tuple(Seat(rank=rank, local_rank=0, node="a", address="") for rank in range(len(ats)))
    expected = Expectation(job="job", epoch=1, seats=seats, hang_floor_s=5, first_step_s=60)
    state, found = collective_diverged.Unlike(), []
    windows = [range(max(1, at - 15), at + 1) for at in ats]
    for rank in order.sample(range(len(ats)), len(ats)):
        called = tuple(
            Collective(n, "barrier", 7) if (rank, n) == (last, odd) else alike(rank, n)
            for n in windows[rank]
        )
        state, new = collective_diverged.judge(state, told(rank, ats[rank], called), expected)
        found += new
    compared = odd is not None and odd in windows[last]
    others = sum(odd in window for window in windows[:-1]) if compared else 0
    named = others > 1 and 2 * others > len(ats)
    of_two = others == 1 and len(ats) == 2
    assert [each.rank for each in found] == [last] * named + [None] * of_two


def test_who_is_odd_is_known_of_its_own_attempt_alone(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    two.go(4)
    detector = two.detector(collective_diverged.DivergedCollectives)
    seats = (Seat(rank=0, local_rank=0, node="node-0", address=""),)
    first, second = (Expectation(job="job", epoch=epoch, seats=seats) for epoch in (1, 2))
    assert detector.odd_of(first).rank == 3
    assert detector.odd_of(second) is None


def test_they_stand_in_it_since_the_last_of_them_came_whatever_is_done_in_other_groups() -> None:
    odd = collective_diverged.Odd(rank=1, text="", members=1, number=57)
    here = GroupProgress(members=1, kind="barrier", enqueued=57, done=56)
    other = GroupProgress(members=2, kind="all_reduce", enqueued=60, done=60)
    behind = replace(other, members=3, enqueued=9, done=9)
    ranks = {
        rank: RankProgress(rank=rank, epoch=1, still_s=still_s, groups=(here, other, behind))
        for rank, still_s in enumerate((9.0, 4.0))
    }
    assert collective_diverged.stand_s(odd, ranks) == 4.0


def test_it_is_given_longer_where_its_spot_was_restarted_for_it_before(cluster: Any) -> None:
    two = trained(cluster, 2)
    standing(two, at_number(57, 3, Collective(57, "barrier", 0)))
    *_, acted = two.go(6)
    again = trained(cluster, 2)
    again.expect(spots={acted.spot: 1})
    standing(again, at_number(57, 3, Collective(57, "barrier", 0)))
    assert all(each.weight is Weight.REPORT for each in again.go(19))
    assert again.go(3)[-1].kind is Kind.COLLECTIVE_MISMATCH

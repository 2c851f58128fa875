"""A loss that stays no number on all ranks that tell one: found once, with since when and where."""

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.watch import Expectation
from holdfast.driver.watch.jobs import JobSeen, RankSeen
from holdfast.driver.watch.loss_not_a_number import (
    KNOWN,
    MARGIN,
    STEPS,
    TOLD,
    NotANumber,
    hear,
    judge,
    only_some,
)
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import BadLoss, Heartbeat, RankProgress, Seat

NODES = ("a", "a", "b", "b")
SEATS = tuple(Seat(rank=k, local_rank=k % 2, node=n, address="::") for k, n in enumerate(NODES))
SINCE = 100


def job(*, again: bool = False, heard: int = 4, start: int = 0) -> JobSeen:
    expected = Expectation(job="job", epoch=1, seats=SEATS, loss_again=again, start=start)
    known = {k: RankSeen(progress=tells(k), heard_s=0.0, uptime_s=0.0) for k in range(heard)}
    return JobSeen(expected=expected, began_s=0.0, places=expected.node_of(), ranks=known)


def bad(
    since: int = SINCE, *, told: int = STEPS, goods: int = KNOWN, last: int = SINCE + STEPS
) -> BadLoss:
    return BadLoss(told=told, since=since, last=last, good=since - 1 if goods else 0, goods=goods)


def tells(rank: int, loss: BadLoss | None = None, step: int = SINCE + STEPS) -> RankProgress:
    value = 2.0 if loss is None else nan
    return RankProgress(rank=rank, epoch=1, job="job", step=step, loss=value, bad_loss=loss)


def heard(known: NotANumber, seen: JobSeen, *ranks: RankProgress) -> Finding | None:
    beat = Heartbeat(node="a", incarnation="i", sequence=1, uptime_s=1.0, ranks=ranks)
    hear(known, beat, seen)
    return judge(known, seen) or only_some(known, beat, seen)


def found(*ranks: RankProgress, seen: JobSeen | None = None) -> Finding | None:
    return heard(NotANumber(), seen or job(), *ranks)


def test_on_all_ranks_it_is_acted_on_and_nobody_is_named() -> None:
    finding = found(*(tells(k, bad()) for k in range(4)))
    assert finding is not None
    assert (finding.kind, finding.weight, finding.node) == (Kind.LOSS, Weight.RESTART, None)
    assert finding.sound == SINCE - 1 - MARGIN
    assert finding.summary == f"the loss is no number since step {SINCE} on all ranks"
    assert len(finding.evidence) == 4


def test_it_is_found_once() -> None:
    known, seen = NotANumber(), job()
    all_bad = [tells(k, bad()) for k in range(4)]
    assert heard(known, seen, *all_bad) is not None
    assert heard(known, seen, *all_bad) is None


def test_where_it_began_on_one_rank_alone_that_is_named() -> None:
    finding = found(*(tells(k, bad(SINCE if k == 3 else SINCE + 1)) for k in range(4)))
    assert finding is not None
    assert (finding.node, finding.rank, finding.sound) == ("b", 3, SINCE - 1 - MARGIN)
    assert finding.summary.endswith("on all ranks, and began on rank 3 of b")


def test_where_it_began_on_ranks_of_one_node_the_node_is_named() -> None:
    finding = found(*(tells(k, bad(SINCE if k < 2 else SINCE + 1)) for k in range(4)))
    assert finding is not None
    assert (finding.node, finding.rank) == ("a", None)


def test_nobody_is_named_where_not_each_rank_tells_its_loss() -> None:
    """As of the last stage of a pipeline: who was first nobody saw."""
    silent = [RankProgress(rank=k, epoch=1, job="job", step=120) for k in (0, 1)]
    finding = found(*silent, tells(2, bad()), tells(3, bad(SINCE + 1)))
    assert finding is not None
    assert (finding.node, finding.weight) == (None, Weight.RESTART)
    assert "on all ranks that tell one (2)" in finding.summary


HEALTHY = {
    "one rank tells a number": [tells(k, bad() if k else None) for k in range(4)],
    "a few in a row, as a scaler skips them": [tells(k, bad(last=SINCE + 15)) for k in range(4)],
    "told twice, far apart": [tells(k, bad(told=TOLD - 1, last=SINCE + 90)) for k in range(4)],
    "some in a row, and no loss is told after that": [
        tells(k, bad(told=STEPS - 1, last=SINCE + STEPS - 2), SINCE + 900) for k in range(4)
    ],
    "no number from the beginning on": [tells(k, bad(goods=0)) for k in range(4)],
    "at the beginning": [tells(k, bad(goods=KNOWN - 1)) for k in range(4)],
    "none is told": [RankProgress(rank=k, epoch=1, job="job", step=200) for k in range(4)],
    "stages that have none": [tells(k, bad(1, goods=0), 900) for k in range(3)] + [tells(3)],
    "another attempt": [
        RankProgress(rank=k, epoch=2, job="job", step=200, loss=nan, bad_loss=bad())
        for k in range(4)
    ],
}


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_is_said_of(case: str) -> None:
    assert found(*HEALTHY[case]) is None


def test_nothing_is_said_before_all_ranks_are_heard_of() -> None:
    ranks = [tells(k, bad()) for k in range(2)]
    assert found(*ranks, seen=job(heard=3)) is None


def test_a_loss_that_is_told_now_and_then_counts_by_its_steps() -> None:
    ranks = [tells(k, bad(told=TOLD, last=SINCE + 250)) for k in range(4)]
    assert found(*ranks) is not None


@pytest.mark.parametrize("start", [SINCE - 1, SINCE - 50])
def test_after_a_start_for_it_no_number_is_needed_before(start: int) -> None:
    """Nor is it where it is told only now and then. What it started from is not trusted, nor what
    it saved since, however late the first loss was told."""
    ranks = [tells(k, bad(goods=0)) for k in range(4)]
    finding = found(*ranks, seen=job(again=True, start=start))
    assert finding is not None
    assert finding.sound == start - MARGIN


def test_where_some_stay_well_it_is_only_said_and_once() -> None:
    known, seen = NotANumber(), job()
    lasts = bad(last=SINCE + 2 * STEPS)
    ranks = [tells(k, lasts if k == 1 else None, lasts.last) for k in range(4)]
    finding = heard(known, seen, *ranks)
    assert finding is not None
    assert (finding.weight, finding.node) == (Weight.REPORT, None)
    assert "rank 1 on a is no number since step 100: nothing is done" in finding.summary
    assert heard(known, seen, *ranks) is None


def test_a_rank_that_tells_numbers_again_takes_it_back() -> None:
    known, seen = NotANumber(), job()
    heard(known, seen, *(tells(k, bad()) for k in range(3)), tells(3))
    assert heard(known, seen, *(tells(k) for k in range(3))) is None
    assert heard(known, seen, tells(3, bad())) is None
    assert known.well == {0, 1, 2}


losses = st.builds(
    lambda since, lasted, told, goods: bad(since, told=told, goods=goods, last=since + lasted),
    st.integers(1, 300),
    st.integers(0, 60),
    st.integers(1, 60),
    st.sampled_from([0, 1, KNOWN, 500]),
)


@given(st.lists(st.none() | losses, min_size=4, max_size=4), st.integers(1, 400))
def test_who_is_acted_on_has_no_rank_that_tells_numbers(
    own: list[BadLoss | None], step: int
) -> None:
    finding = found(*(tells(k, each, step) for k, each in enumerate(own)))
    if finding is not None and finding.weight is Weight.RESTART:
        counted = [each for each in own if each is not None and each.goods >= KNOWN]
        assert None not in own
        assert counted
        assert all(_lasts(each) for each in counted)
    if finding is not None and finding.node is not None:
        sinces = [each.since for each in own if each is not None]
        assert min(sinces) != max(sinces)


def _lasts(loss: BadLoss) -> bool:
    return loss.told >= TOLD and loss.last - loss.since + 1 >= STEPS


@given(st.lists(losses, min_size=4, max_size=4), st.integers(1, 400), st.integers(0, 100))
def test_what_lasts_longer_is_found_as_well(own: list[BadLoss], step: int, more: int) -> None:
    def acted(later: int) -> bool:
        told = (replace(each, last=each.last + later) for each in own)
        finding = found(*(tells(k, each, step) for k, each in enumerate(told)))
        return finding is not None and finding.weight is Weight.RESTART

    assert not acted(0) or acted(more)


@given(st.lists(losses, min_size=4, max_size=4), st.integers(1, 400), st.integers(0, 100))
def test_steps_of_which_no_loss_is_told_count_for_nothing(
    own: list[BadLoss], step: int, more: int
) -> None:
    def acted(at: int) -> bool:
        finding = found(*(tells(k, each, at) for k, each in enumerate(own)))
        return finding is not None and finding.weight is Weight.RESTART

    assert acted(step) == acted(step + more)

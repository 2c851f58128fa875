"""A loss that jumps: told once, of the ranks that show it first."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.watch import Expectation
from holdfast.driver.watch.losses import KNOWN, LASTS, LOSS, NORM, Figure, Losses, judge
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, RankProgress, Seat

SEATS = tuple(Seat(rank=k, local_rank=k, node="a", address="::") for k in range(2))


def expected(epoch: int = 1) -> Expectation:
    return Expectation(job="job", epoch=epoch, seats=SEATS)


def told(
    *losses: float, epoch: int = 1, known: Losses | None = None, figure: Figure = LOSS
) -> list[Finding]:
    """Of rank 1, step after step; rank 0 learns well."""
    name = "loss" if figure is LOSS else "grad_norm"
    found: list[Finding] = []
    known = known or Losses()
    for step, loss in enumerate(losses, start=1):
        ranks = tuple(
            RankProgress(rank=k, epoch=epoch, job="job", step=step, **{name: (2.0, loss)[k]})
            for k in range(2)
        )
        beat = Heartbeat(node="a", incarnation="i", sequence=step, uptime_s=1.0, ranks=ranks)
        known, new = judge(known, beat, expected(), figure)
        found += new
    return found


USUAL = (3.0,) * (KNOWN + 1)


def test_a_jump_that_lasts_is_told() -> None:
    (found,) = told(*USUAL, *(20.0,) * LASTS)
    assert (found.kind, found.weight, found.node) == (Kind.LOSS, Weight.REPORT, None)
    assert "is 6.67 times as high at step" in found.summary
    assert [each.source for each in found.evidence] == ["rank 1 on a"]


def test_a_jump_of_the_gradients_norm_that_lasts_is_told() -> None:
    (found,) = told(*USUAL, *(20.0,) * LASTS, figure=NORM)
    assert (found.kind, found.weight, found.node) == (Kind.LOSS, Weight.REPORT, None)
    assert found.summary.startswith("the gradient norm of rank 1 on a is 6.67 times as high at")
    assert found.evidence[0].text.startswith("gradient norm 20 at step")


@pytest.mark.parametrize("figure", [LOSS, NORM])
def test_a_rank_that_does_not_tell_it_is_not_judged(figure: Figure) -> None:
    other = NORM if figure is LOSS else LOSS
    known = Losses(epoch=1)
    told(*USUAL, *(20.0,) * LASTS, known=known, figure=other)
    seen = RankProgress(rank=0, epoch=1, job="job", step=900)
    beat = Heartbeat(node="a", incarnation="i", sequence=1, uptime_s=1.0, ranks=(seen,))
    assert judge(Losses(epoch=1), beat, expected(), figure)[1] == ()


NOTHING = {
    "a spike that is soon over": (*USUAL, *(20.0,) * (LASTS - 1), 3.0, 3.0),
    "losses that are no numbers": (*USUAL, *(nan, inf, -inf) * LASTS),
    "one batch": (*USUAL, 20.0, 3.0, 20.0, 3.0),
    "a rise below five times": (*USUAL, 14.0, 14.0, 14.0),
    "a beginning": (1.0, 90.0, 90.0, 90.0),
    "a loss about nought": (*(0.3, 0.1, -0.4) * KNOWN, 2.0, 2.0, 2.0),
    "a loss below nought": (*(-3.0,) * (KNOWN + 1), 5.0, 5.0, 5.0),
}


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_is_told_of(case: str) -> None:
    assert told(*NOTHING[case]) == []


def test_ranks_of_another_epoch_say_nothing() -> None:
    assert told(*USUAL, *(20.0,) * LASTS, epoch=2) == []


@given(st.lists(st.floats(min_value=1.0, max_value=4.9), max_size=60))
def test_whatever_stays_within_five_times_is_never_told(losses: list[float]) -> None:
    assert told(*losses) == []


def test_a_heartbeat_costs_what_its_own_ranks_cost() -> None:
    """What is known of all others is not copied for it."""
    known, usual = Losses(epoch=1), None
    for rank in range(3):
        seen = RankProgress(rank=rank, epoch=1, job="job", step=1, loss=2.0)
        beat = Heartbeat(node="a", incarnation="i", sequence=1, uptime_s=1.0, ranks=(seen,))
        known, _ = judge(known, beat, expected())
        assert usual is None or known.usual is usual
        usual = known.usual
    assert set(known.usual) == {0, 1, 2}


def one(rank_step: int, loss: float, epoch: int = 1) -> Heartbeat:
    seen = RankProgress(rank=1, epoch=epoch, job="job", step=rank_step, loss=loss)
    return Heartbeat(node="a", incarnation="i", sequence=1, uptime_s=1.0, ranks=(seen,))


def test_a_rank_that_goes_back_is_measured_anew() -> None:
    known, found = Losses(), []
    usual = [(step, 3.0) for step in range(1, KNOWN + 2)]
    for step, loss in (*usual, (5, 20.0), (6, 20.0), (7, 20.0)):
        known, new = judge(known, one(step, loss), expected())
        found += new
    assert found == []


def last(known: Losses, tells: list[tuple[int, float]], epoch: int) -> list[Finding]:
    found: list[Finding] = []
    for step, loss in tells:
        known, new = judge(known, one(step, loss, epoch), expected(epoch))
        found += new
    return found


def test_another_epoch_is_told_of_anew_and_measured_by_its_own_losses() -> None:
    known = Losses()
    for step in range(1, KNOWN + 2):
        known, _ = judge(known, one(step, 3.0), expected())
    found = last(known, [(step, 20.0) for step in range(KNOWN + 2, KNOWN + 2 + LASTS)], 1)
    assert len(found) == 1
    assert last(known, [(step, 20.0) for step in range(60, 60 + KNOWN)], 2) == []

"""A start from before a loss that was no number: the job is not past it while it is so again."""

from collections.abc import Callable
from math import nan
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.watch.loss_not_a_number import STEPS
from holdfast.protocol.faults import Weight
from holdfast.protocol.messages import BadLoss, RankProgress

FURTHEST = 20
"""The step at which the attempt before was ended."""
LATER = 15
"""Since when it is no number now: it is found only beyond the furthest."""


def none_since(step: int, until: int = 1_000) -> Callable[[RankProgress], RankProgress]:
    """All ranks tell their loss, which is no number in these steps."""

    def seen(rank: RankProgress) -> RankProgress:
        if not step <= rank.step < until:
            return replace(rank, loss=2.0)
        told = BadLoss(
            told=rank.step - step + 1, since=step, last=rank.step, good=step - 1, goods=4
        )
        return replace(rank, loss=nan, bad_loss=told)

    return seen


def replayed(cluster: Any, alter: Callable[[RankProgress], RankProgress]) -> Any:
    world = cluster(2)
    world.step_s, world.alter = 0.1, alter
    world.expect(FURTHEST, loss_again=True)
    world.step = 10
    return world


def test_what_comes_some_steps_later_is_found_before_the_job_counts_as_further(
    cluster: Any,
) -> None:
    world = replayed(cluster, none_since(LATER))
    world.go((LATER + STEPS - 10) / 10 + 1)
    assert [each.weight for each in world.found] == [Weight.RESTART]
    assert world.seen == []


@pytest.mark.parametrize("since", [LATER, 1_000])
def test_once_it_is_a_number_the_job_is_further_than_it_was(cluster: Any, since: int) -> None:
    world = replayed(cluster, none_since(since, until=FURTHEST + 5))
    world.go(5)
    assert world.found == []
    assert [each.before for each in world.seen] == [FURTHEST]


def test_a_rank_that_never_tells_a_number_does_not_hold_the_job_back(cluster: Any) -> None:
    """As a stage of a pipeline that has none, beside others that tell theirs."""
    bad = none_since(0)
    world = replayed(cluster, lambda rank: bad(rank) if rank.rank else replace(rank, loss=2.0))
    world.go(5)
    assert [each.before for each in world.seen] == [FURTHEST]

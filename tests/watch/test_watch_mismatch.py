"""A rank that skips a collective is named within steps, as user code, and nobody else ever."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.protocol.faults import Blame, Kind, Weight


def marked(cluster: Any, skipped: dict[int, int], late: dict[int, int]) -> None:
    """Two collectives a step; rank r has skipped one at step skipped[r], or is late[r] behind."""

    def alter(seen: Any) -> Any:
        at = max(0, seen.step - late.get(seen.rank, 0))
        marks = {
            step: 2 * step - (step >= skipped.get(seen.rank, 10**9))
            for stride in (1, 8, 64, 512)
            if (step := at // stride * stride)
        }
        (group,) = seen.groups
        marked = replace(group, marks=tuple(sorted(marks.items())))
        return replace(seen, step=at, groups=(marked,))

    cluster.alter = alter


def test_the_rank_that_skips_one_is_named_and_nothing_is_done_to_its_node(cluster: Any) -> None:
    two = cluster(2)
    marked(two, {2: 30}, {})
    (finding,) = two.go(20)
    assert (finding.kind, finding.rank, finding.node) == (Kind.COLLECTIVE_MISMATCH, 2, "node-1")
    assert (finding.weight, finding.blame) == (Weight.REPORT, Blame.USER)
    assert 30 <= finding.step <= 32
    assert f"rank 1: {2 * finding.step}, rank 2: {2 * finding.step - 1}" in finding.evidence[0].text


def test_of_two_ranks_neither_is_named(cluster: Any) -> None:
    one = cluster(1)
    marked(one, {1: 30}, {})
    (finding,) = one.go(20)
    assert (finding.kind, finding.rank) == (Kind.COLLECTIVE_MISMATCH, None)
    assert "one of ranks 0, 1" in finding.summary


def test_ranks_that_never_agreed_count_their_steps_in_another_way(cluster: Any) -> None:
    two = cluster(2)
    marked(two, {2: 0}, {})
    assert two.go(20) == []


@pytest.mark.parametrize("late", [{0: 1}, {3: 7}, {1: 40, 2: 3}])
def test_ranks_that_are_seen_late_are_no_mismatch(cluster: Any, late: dict[int, int]) -> None:
    two = cluster(2)
    marked(two, {}, late)
    assert two.go(30) == []


def test_a_difference_that_does_not_last_is_a_thread_beside_the_training(cluster: Any) -> None:
    two = cluster(2)
    marked(two, {}, {})
    steady = two.alter

    def alter(seen: Any) -> Any:
        seen = steady(seen)
        (group,) = seen.groups
        early = seen.rank == 1
        marks = tuple((at, 2 * at + (early and at % 16 == 8)) for at, _ in group.marks)
        return replace(seen, groups=(replace(group, marks=marks),))

    two.alter = alter
    assert two.go(60) == []


def test_a_new_epoch_starts_anew(cluster: Any) -> None:
    two = cluster(2)
    marked(two, {}, {})
    two.go(10)
    marked(two, {2: 0}, {})
    two.step, two.epoch = 0, 2
    two.expect()
    assert two.go(10) == []

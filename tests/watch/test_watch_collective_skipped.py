"""A rank that skips a collective is named within steps, as user code, and nobody else ever."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch.collective_skipped import SkippedCollectives, Tally
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
    assert (finding.weight, fault_of(finding).blame) == (Weight.REPORT, Blame.USER)
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


class Untouched(dict[int, int]):
    """Marks of a rank that nobody has a reason to look at."""

    def __getitem__(self, step: int) -> int:
        raise AssertionError(f"looked at step {step}")

    def __iter__(self) -> Any:
        raise AssertionError("looked through")

    keys = items = values = __iter__  # type: ignore[assignment]


def test_a_ranks_marks_cost_the_same_however_many_others_its_group_has(cluster: Any) -> None:
    many = cluster(8)
    marked(many, {}, {})
    assert many.go(10) == []
    skipped = many.detector(SkippedCollectives)
    (marks,) = skipped._groups["job"].groups.values()
    assert marks.agreed
    marks.counts |= {rank: Untouched(marks.counts[rank]) for rank in range(2, 16)}
    many.step += 1
    many.take(many.watch.heard(many.beat("node-0"), many.now))
    assert marks.counts[0][many.step] == 2 * many.step


def test_a_rank_that_comes_late_into_a_group_of_unknown_size_is_compared_too(cluster: Any) -> None:
    two = cluster(2)
    marked(two, {2: 30}, {})
    known = two.alter

    def alter(seen: Any) -> Any:
        (group,) = known(seen).groups
        late = seen.rank == 3 and two.now < 105
        return replace(known(seen), groups=() if late else (replace(group, ranks=()),))

    two.alter = alter
    (finding,) = two.go(20)
    assert finding.rank == 2


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_a_tally_counts_as_a_counter_does(told: list[tuple[int, bool]]) -> None:
    tally, counter = None, Counter[int]()
    for count, more in told:
        if more:
            counter[count] += 1
            tally = tally or Tally(count, alike=0, held=0)
            tally.add(count)
        elif tally is not None and counter.get(count):
            counter[count] -= 1
            if not counter[count]:
                del counter[count]
            tally.drop(count)
            tally = tally if tally.held else None
        if tally is not None:
            assert (tally.held, tally.most()) == (counter.total(), counter.most_common(1)[0][0])
            assert bool(tally.others) == (len(counter) > 1)

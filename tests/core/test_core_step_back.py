"""How far a job goes back whose ranks die at their start: twice as far each time."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.conftest import Life

from holdfast.driver.adapters.rest.against import mind_of_job
from holdfast.driver.core import events as e
from holdfast.driver.core.evidence.rules import STEPS_BACK, USERS_SAID
from holdfast.driver.core.state.fact import Hypothesis
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.restore_point import Tainted, Verified, Where
from holdfast.protocol.messages import Task

TASK = Task(
    command=("train",),
    workdir=".",
    store_url="file:///store/job",
    store_interval_steps=10,
    retention=8,
)
STORED = (30, 40, 50, 60, 70, 80, 90)
IN_MEMORY = (97, 98, 99, 100)


def begun(stored: Iterable[int], memory: Iterable[int]) -> Life:
    """A job that was killed from outside once it had saved these steps."""
    life = Life()
    life.do(e.DriverStarted(term=1))
    for k in range(3):
        life.node(f"n{k}")
    life.submit(task=TASK, nodes=2)
    life.answer()
    life.progress(1)
    for step in stored:
        life.stores(step)
    life.dies(1, signal=9, step=max([*stored, *memory]))
    answered(life, stored, memory)
    return life


def answered(life: Life, stored: Iterable[int], memory: Iterable[int]) -> None:
    first = life.job.history[0].epoch
    life.answer(snapshots=[(k, first) for k in memory], stored=[(k, first) for k in stored])


def starts(life: Life, poison: int, stored: Iterable[int], memory: Iterable[int]) -> list[int]:
    """From where its ranks start until they live: from `poison` on each start ends them."""
    tried = [life.job.restore.step]
    while tried[-1] >= poison and not life.job.finished:
        life.dies(0, exception="ValueError: loss is nan", own_step=tried[-1])
        answered(life, stored, memory)
        tried += [] if life.job.finished else [life.job.restore.step]
    return tried


@pytest.mark.parametrize(
    ("poison", "tried"),
    [
        (100, [100, 100, 99]),
        (99, [100, 100, 99, 98]),
        (96, [100, 100, 99, 98, 90]),
        (85, [100, 100, 99, 98, 90, 80]),
        (75, [100, 100, 99, 98, 90, 80, 60]),
    ],
)
def test_it_goes_back_no_more_than_twice_as_far_as_it_has_to(poison: int, tried: list[int]) -> None:
    life = begun(STORED, IN_MEMORY)
    assert starts(life, poison, STORED, IN_MEMORY) == tried
    assert life.phase is Phase.RUNNING


def test_a_fact_says_in_which_attempt_and_at_which_rank_it_was() -> None:
    life = begun(STORED, IN_MEMORY)
    life.dies(3, signal=9, own_step=100)
    told = [(fact.about.attempt, fact.about.rank) for fact in life.job.facts]
    assert told == [(1, 1), (2, 3)]


def test_who_asks_why_a_job_ended_hears_how_to_go_on_from_what_it_saved() -> None:
    life = begun(STORED, IN_MEMORY)
    assert mind_of_job(life.job) == ""
    while not life.job.finished:
        life.dies(0, exception="ValueError: loss is nan", step=101, own_step=101)
        if not life.job.finished:
            answered(life, STORED, IN_MEMORY)
    assert "another job goes on from step 90: with" in mind_of_job(life.job)


def test_what_is_skipped_is_tainted_and_says_why() -> None:
    life = begun(STORED, IN_MEMORY)
    starts(life, 85, STORED, IN_MEMORY)
    known = {each.step: each.status for each in life.job.points}
    assert not isinstance(known[80], Tainted)
    life.dies(0, exception="ValueError: loss is nan", own_step=80)
    assert life.job.why.endswith("the checkpoint of step 80 in the store is not used again")
    known = {each.step: each.status for each in life.job.points}
    assert isinstance(known[70], Tainted)
    assert known[70].why == "ranks that started from step 80, near it, died at once"


def test_what_was_the_restore_points_is_held_against_no_node_once_the_job_gets_on() -> None:
    life = begun(STORED, IN_MEMORY)
    before = [life.state.nodes[name].record.facts for name in life.job.places]
    while life.job.restore.step == 100:
        life.dies(0, signal=9, own_step=100)
        answered(life, STORED, IN_MEMORY)
    struck = [life.state.nodes[name].record.facts for name in life.job.places]
    assert struck != before
    life.progress(101)
    assert [life.state.nodes[name].record.facts for name in life.job.places] == before


def test_it_is_not_taken_though_it_is_told_late_and_holds_nobody_up() -> None:
    life = begun((60, 80), IN_MEMORY)
    starts(life, 85, (60, 80), IN_MEMORY)
    life.dies(0, exception="ValueError: loss is nan", own_step=80)
    life.stores(70, epoch=life.job.history[0].epoch)
    answered(life, (60, 70, 80), IN_MEMORY)
    assert life.job.restore.step == 60


def test_it_does_not_go_behind_what_ranks_got_on_from_before_that_fails_too() -> None:
    life = begun(STORED, ())
    life.dies(1, signal=9, step=95)
    answered(life, STORED, ())
    life.progress(200)
    (good,) = [each for each in life.job.points if isinstance(each.status, Verified)]
    assert good.step == 90
    life.stores(100)
    life.stores(110)
    life.dies(3, signal=9, step=112)
    old, new = life.job.history[0].epoch, life.job.history[-1].epoch
    saved = [(k, old) for k in STORED] + [(100, new), (110, new)]
    memory = [(111, new), (112, new)]
    tried = []
    for _ in range(7):
        life.answer(snapshots=memory, stored=saved)
        tried.append(life.job.restore.step)
        life.dies(0, exception="ValueError: loss is nan", own_step=tried[-1])
    assert tried == [112, 112, 111, 110, 100, 90, 60]


def test_where_all_that_was_kept_is_poisoned_why_names_the_setting_that_would_have_kept_more() -> (
    None
):
    life = begun((80, 90), ())
    assert starts(life, 80, (80, 90), ())[-1] == 80
    assert life.phase is Phase.FAILED
    (row,) = (row for row in life.incident.table.rows if row.hypothesis is Hypothesis.POINT)
    assert row.why.startswith("no older one was kept: checkpoint.retention is 8, and a larger one")


def test_of_a_step_whose_memory_cannot_be_read_the_store_may_have_another_copy() -> None:
    life = begun((90, 100), IN_MEMORY)
    life.dies(0, exception="CheckpointRefused")
    answered(life, (90, 100), IN_MEMORY)
    assert (life.job.restore.where, life.job.restore.step) == (Where.STORE, 100)


def test_both_copies_of_the_newest_step_are_tried_before_a_step_is_lost() -> None:
    stored, memory = (*STORED, 100), IN_MEMORY
    life = begun(stored, memory)
    assert starts(life, 99, stored, memory) == [100, 100, 100, 99, 98]


def test_two_copies_of_one_step_are_one_of_the_steps_back() -> None:
    """A poisoned job was given up at its fifth point of ten: memory and store had had the same."""
    stored, memory = (5, 10, 15, 20, 25, 30, 35, 40), (37, 38, 39, 40)
    life = begun(stored, memory)
    assert starts(life, 25, stored, memory) == [40, 40, 40, 39, 38, 35, 30, 20]
    assert life.phase is Phase.RUNNING


@given(
    st.lists(st.integers(2, 400), min_size=1, max_size=12, unique=True),
    st.integers(1, 8),
    st.integers(2, 400),
)
def test_a_few_starts_find_what_is_good_or_end_the_job(points, most, poison) -> None:
    stored, memory = points[:most], sorted(points[most:])
    life = begun(stored, memory)
    tried = starts(life, poison, stored, memory)
    assert len(tried) <= STEPS_BACK + USERS_SAID + 1
    assert tried[1:] == sorted(set(tried[1:]), reverse=True)
    assert life.job.finished == (tried[-1] >= poison)
    assert life.moved == life.evicted == []
    for before, after in pairwise(tried[1:]):
        oldest = min(each for each in stored if each < before)
        least = max(oldest, before - max(1, tried[0] - before))
        assert after == max(each for each in points if each <= least)


def test_what_a_device_does_after_a_step_is_of_no_restore_point(training: Any) -> None:
    """It says nothing of its place in the script; but ranks had got on from where they started."""
    life = training(nodes=4, spare=1, task=TASK)
    stored = [(40, 1), (30, 1)]
    for step, _ in reversed(stored):
        life.progress(step)
        life.stores(step)
    words = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    for _ in range(3):
        life.dies(4, exception=words, own_step=45, step=45)
        life.answer(stored=stored)
        if life.phase is Phase.DIAGNOSING:
            life.tests_end()
            life.answer(stored=stored)
    assert life.moved == ["n2"]
    assert life.job.restore.step == 40

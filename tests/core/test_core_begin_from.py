"""A job that goes on from what an earlier one left begins there, or waits: never at 0 by itself."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.messages import EARLIER, Restore, Task

BEGUN = Task(
    command=("train",),
    workdir=".",
    store_url="file:///store/job/life-2",
    store_interval_steps=10,
    begin_from="file:///store/job/life-1",
)


@pytest.fixture
def begun(life):
    """It has its nodes, and has heard nothing of any store yet."""
    life.node("n0")
    life.node("n1")
    life.submit(task=BEGUN)
    return life


def begun_at(life):
    """The step from which ranks run; None while they wait."""
    if not life.job.seated:
        return None
    return life.job.restore.step if life.job.restore else 0


def test_it_begins_from_the_newest_that_is_found(begun):
    begun.answer(stored=[(40, EARLIER), (30, EARLIER)])
    assert begun_at(begun) == 40
    assert begun.told("n0").restore == Restore(source="store", step=40, epoch=EARLIER)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"looking": "nothing found so far"}, "is still being searched: nothing found so far"),
        ({"store_error": "beginFrom: it is away"}, "beginFrom: it is away"),
        ({}, "no checkpoint that it could begin from is found in file:///store/job/life-1"),
    ],
    ids=["looking", "error", "nothing"],
)
def test_until_one_is_found_it_waits_and_says_for_what(begun, told, why):
    begun.answer(**told)
    assert (begun_at(begun), begun.phase) == (None, Phase.STARTING)
    assert begun.job.waiting.endswith(why)
    begun.answer(looking="", store_error="", stored=[(40, EARLIER)])
    assert begun_at(begun) == 40


def test_a_person_may_have_it_begin_anew(begun):
    begun.answer(store_error="it is away")
    begun.do(e.ResumeRequested(job="job", by="ada", from_step=0))
    begun.answer(store_error="it is away")
    assert begun_at(begun) == 0


def test_what_it_saves_itself_comes_first_then(begun):
    begun.answer(stored=[(40, EARLIER), (60, EARLIER)])
    assert begun_at(begun) == 60
    begun.progress(75)
    begun.stores(70)
    begun.dies(1, signal=9)
    begun.answer(stored=[(70, 1), (60, EARLIER), (40, EARLIER)])
    assert begun_at(begun) == 70


def test_what_lies_beyond_where_it_began_is_of_another_line(begun):
    """The earlier job's step 60 was damaged, and is not any more."""
    begun.answer(stored=[(40, EARLIER)])
    begun.progress(45)
    begun.dies(1, signal=9)
    begun.answer(stored=[(60, EARLIER), (40, EARLIER)])
    assert begun_at(begun) == 40


def test_epochs_of_other_lives_count_for_nothing(begun):
    begun.answer(stored=[(90, 3), (40, EARLIER)])
    assert begun_at(begun) == 40

"""A job that goes on from what an earlier one left begins there, or waits: never at 0 by itself."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.versions import Version
from holdfast.protocol.faults import Blame
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


MISFIT = "CheckpointMisfit"
"""What a rank raises where the state of its script has other names or shapes."""


def test_what_does_not_fit_the_script_is_decided_once_and_is_the_users(begun):
    begun.answer(stored=[(40, EARLIER)])
    begun.dies(0, exception=MISFIT)
    assert begun.phase is Phase.FAILED
    assert begun.job.failure.reason.endswith("Another restart would not help")
    assert MISFIT in begun.job.failure.traceback
    assert (begun.job.attempt, begun.paid, begun.evicted) == (1, [], [])
    assert begun.incident.blame is Blame.USER


def test_a_version_that_fitted_is_gone_back_to(storing):
    storing.progress(17)
    (first,) = storing.job.versions
    other = replace(first.plan, task=replace(first.plan.task, command=("train", "--wide")))
    second = Version(number=2, plan=other, at_s=storing.now)
    history = (*storing.job.history, replace(storing.job.history[-1], version=2))
    job = replace(storing.job, versions=(first, second), history=history)
    storing.state = replace(storing.state, jobs={"job": job})
    for _ in range(2):
        storing.dies(0, exception=MISFIT)
        storing.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert storing.phase is Phase.RUNNING
    assert storing.job.running.number == 3
    assert storing.job.versions[-1].by == "version 1"

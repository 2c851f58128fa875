"""A script that begins anew is not told to be back as if nothing was repeated."""

import pytest

from holdfast.driver.adapters.rest.views import incident_view
from holdfast.driver.core import events as e


def trains(life) -> str:
    life.do(e.ProgressSeen(job="job", epoch=life.job.epoch))
    return life.job.why


def test_who_begins_anew_with_steps_of_its_own_count_repeats_what_it_had_not_saved(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    life.answer()
    assert trains(life) == "job trains"
    life.dies(1, signal=9)
    life.answer()
    assert trains(life) == (
        "job trains again: its script started again, and repeats what it had not saved"
    )


# ---------------------------------------------------------------- how far it was, and is


def began(life, since: int, before: int) -> None:
    epoch = life.job.epoch
    life.do(e.StepsRepeated(job="job", epoch=epoch, since=since, before=before))


@pytest.fixture
def own_count(life):
    """A job whose ranks count from their own start; one died, and the next attempt runs."""
    life.node("n0")
    life.node("n1")
    life.submit()
    life.answer()
    trains(life)
    life.dies(1, signal=9)
    life.answer()
    return life


SAVED = "job began again where its script begins, which had saved step"
BEGAN = {
    0: "job began again from the beginning: 37 steps are done again",
    30: f"{SAVED} 30: 7 steps are done again if it goes on from there, else 37",
    36: f"{SAVED} 36: 1 step is done again if it goes on from there, else 37",
    37: f"{SAVED} 37: no step is done again if it goes on from there, else 37",
}


@pytest.mark.parametrize("since", BEGAN)
def test_where_a_script_began_again_is_said_and_how_many_steps_it_repeats(own_count, since) -> None:
    began(own_count, since, 37)
    assert own_count.job.why == BEGAN[since]
    assert own_count.incident.steps_lost == 37 - since


def test_whether_a_script_goes_on_from_what_it_saved_nobody_claims_to_know(own_count) -> None:
    began(own_count, 30, 37)
    assert "further" not in trains(own_count)
    view = incident_view(own_count.incident)
    assert (view.step, view.steps_lost) == (None, 7)


def test_what_was_lost_ends_when_the_furthest_step_is_passed_again(own_count) -> None:
    life = own_count
    found_s = life.incident.found_s
    began(life, 0, 37)
    life.wait(until_s=found_s + 20)
    assert incident_view(life.incident).recovered_s is None
    life.now = found_s + 20
    assert trains(life) == "job trains, and is further than it was before"
    view = incident_view(life.incident)
    assert view.recovered_s == pytest.approx(20, abs=0.1)
    assert (view.steps_lost, view.open) == (37, False)


def test_what_takes_longer_than_an_incident_is_kept_open_is_lost_as_well(own_count) -> None:
    life = own_count
    found_s = life.incident.found_s
    began(life, 0, 3_000)
    life.wait(until_s=found_s + 1_500)
    assert not life.incident.open
    trains(life)
    assert incident_view(life.incident).recovered_s == pytest.approx(1_500, abs=0.1)


def test_no_time_is_lost_twice_to_two_faults(own_count) -> None:
    life = own_count
    first_s = life.incident.found_s
    began(life, 0, 3_000)
    life.wait(until_s=first_s + 1_000)
    life.dies(1, signal=9)
    second_s = life.now
    life.answer()
    began(life, 0, 3_000)
    life.wait(until_s=second_s + 2_000)
    trains(life)
    one, two = (incident_view(life.state.incidents[number]) for number in (1, 2))
    assert one.recovered_s + two.recovered_s == pytest.approx(life.now - first_s, abs=0.1)


def test_time_in_which_a_person_suspended_it_is_not_lost(own_count) -> None:
    life = own_count
    began(life, 0, 3_000)
    life.wait(until_s=life.now + 1_000)
    life.do(e.SuspendRequested(job="job"))
    life.answer()
    life.do(e.ResumeRequested(job="job"))
    for node in ("n0", "n1"):
        life.do(e.NodeReleased(node=node))
    life.answer()
    life.wait(until_s=life.now + 9_000)
    trains(life)
    assert life.incident.resumed_s is None


@pytest.mark.parametrize(("saves", "said"), [([], "up to 17 steps"), ([(10, 1)], "7 steps are")])
def test_a_start_behind_the_furthest_step_says_what_is_done_again(training, saves, said) -> None:
    task = e.Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)
    life = training(**({"task": task} if saves else {}))
    life.dies(1, signal=9, step=17)
    life.answer(stored=saves)
    (start,) = [why for why in life.whys[-6:] if "starts" in why]
    assert f": {said}" in start
    assert start.endswith("done again")


def test_ranks_that_were_given_a_checkpoint_began_there_whatever_they_count(
    life,
) -> None:
    """They use the Checkpointer and tell no steps: their own count alone begins anew."""
    life.node("n0")
    life.node("n1")
    life.submit()
    life.answer()
    trains(life)
    life.dies(1, signal=9)
    life.answer(snapshots=[(20, 1)])
    assert life.job.why == "job runs"
    began(life, 0, 17)
    assert life.job.why == "job runs"
    assert life.incident.steps_lost == 0


def test_a_start_without_a_checkpoint_claims_nothing_of_the_script(training) -> None:
    life = training()
    life.dies(1, signal=9, step=17)
    life.answer()
    (start,) = [why for why in life.whys[-6:] if "starts" in why]
    assert "job starts attempt 2 where its script begins, for no checkpoint of Holdfast" in start


def test_who_suspends_a_job_without_a_checkpoint_is_warned(training) -> None:
    life = training()
    asked = life.do(e.SuspendRequested(job="job"))
    assert "job is being suspended with no checkpoint in its store so far: what" in asked.why
    life.answer()
    resumed = life.do(e.ResumeRequested(job="job"))
    assert "no checkpoint of job is known: unless one is found its script begins" in resumed.why


def test_who_resumes_a_job_is_told_the_step_that_is_in_its_store(storing) -> None:
    storing.stores(10)
    assert "no checkpoint" not in storing.do(e.SuspendRequested(job="job")).why
    storing.answer(stored=[(10, storing.job.history[0].epoch)])
    resumed = storing.do(e.ResumeRequested(job="job"))
    assert "job goes on from step 10, which is in its store, or a later one" in resumed.why

"""What an incident remembers: its times, the steps lost, and when it is over."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.state.model import Phase, Rollback
from holdfast.driver.core.turn import Turn


def test_an_incident_keeps_its_times_in_order_and_the_steps_lost(training) -> None:
    life = training(standbys=1)
    first = life.job.epoch
    life.dies(3, signal=9, step=12)
    life.answer(snapshots=[(10, first)])
    life.progress(13)
    incident = life.incident
    times = [incident.found_s, incident.suspended_s, incident.restored_s, incident.resumed_s]
    assert times == sorted(times)
    assert incident.rollbacks == {"job": Rollback(before=12, restored=10)}
    assert incident.steps_lost == 2
    assert incident.outcome == "back at step 13"


def test_of_two_ways_back_the_further_counts_and_counts_once(training) -> None:
    life = training(standbys=1)
    first = life.job.epoch
    life.dies(3, signal=9, step=12)
    life.answer(snapshots=[(12, first)])
    assert life.incident.steps_lost == 0
    life.lose("n1")
    life.answer(stored=[(5, first)])
    assert life.incident.steps_lost == 7
    second = life.job.epoch
    life.dies(3, signal=9, step=9)
    life.answer(snapshots=[(9, second)])
    life.progress(13)
    assert life.state.incident_count == 1
    assert life.incident.rollbacks == {"job": Rollback(before=12, restored=5)}
    assert life.incident.steps_lost == 7, "not the last way back, and 6 to 9 not twice"


def test_what_is_trained_between_two_ways_back_was_not_there_before(training) -> None:
    life = training()
    first = life.job.epoch
    life.dies(3, signal=9, step=12)
    life.answer(stored=[(10, first)])
    life.dies(3, signal=9, step=14)
    life.answer(stored=[(10, first)])
    assert life.incident.steps_lost == 2


def test_an_incident_of_two_jobs_has_the_sum_of_what_each_lost(life) -> None:
    for k in range(4):
        life.node(f"n{k}", rack="r")
    for name in ("a", "b"):
        life.submit(name)
        life.answer(name)
        life.progress(1, name)
    first = {name: life.state.jobs[name].epoch for name in ("a", "b")}
    life.lose("n1")
    life.lose("n3")
    life.node("n4")
    life.node("n5")
    for name, before, restored in (("a", 1_000, 990), ("b", 20, 15)):
        life.answer(name, stored=[(restored, first[name])])
        epoch = life.state.jobs[name].epoch
        life.do(e.ProgressSeen(job=name, epoch=epoch, step=before + 1, before=before))
    assert life.incident.jobs == ("a", "b")
    assert life.incident.steps_lost == 10 + 5


def test_a_job_whose_steps_cannot_be_seen_settles(training) -> None:
    life = training()
    life.dies(3, signal=9)
    life.answer()
    life.wait(until_s=life.now + life.policy.settle_s + 1)
    assert life.job.incident is None
    assert life.incident.closed_s is not None


def test_faults_of_a_job_without_steps_are_incidents_of_their_own_once_it_went_on(life) -> None:
    life.node("n0")
    life.submit(nodes=1, standbys=0)
    life.answer()
    for rank in (0, 1):
        life.dies(rank, signal=9)
        life.answer()
        life.do(e.ProgressSeen(job="job", epoch=life.job.epoch, stepless=True))
        assert (life.job.incident, life.incident.rank) == (None, rank)
    assert life.incident.resumed_s == life.now


def test_a_first_step_is_told_of_a_job_that_was_thought_to_have_none(life) -> None:
    life.node("n0")
    life.submit(nodes=1, standbys=0)
    life.answer()
    life.do(e.ProgressSeen(job="job", epoch=life.job.epoch, stepless=True))
    life.do(e.ProgressSeen(job="job", epoch=life.job.epoch, step=1))
    assert life.job.best_step == 1
    assert life.do(e.ProgressSeen(job="job", epoch=life.job.epoch, step=2)).idle


@pytest.mark.parametrize(("waiting", "anew"), [(("job",), True), (("job", "other"), False)])
def test_a_recovery_is_told_anew_where_it_is_of_that_job_alone(
    training, waiting: tuple[str, ...], anew: bool
) -> None:
    life = training()
    life.dies(0, signal=11)
    life.answer()
    known = life.incident
    assert life.phase is Phase.RUNNING
    assert None not in (known.suspended_s, known.restored_s)
    turn = Turn(life.state, life.now + 1.0, life.policy)
    turn.incident(known.id, waiting=waiting)
    incidents.recovers_anew(turn, turn.jobs["job"], known.id)
    told = turn.incidents[known.id]
    assert (told.anew_s, told.restored_s) == (
        (turn.now, None) if anew else (None, known.restored_s)
    )

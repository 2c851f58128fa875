"""A name may have several jobs, one after another: what hit one of them did not hit the next."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.faults.incidents import hit
from holdfast.driver.core.state.model import Incident
from holdfast.driver.people import job_lives
from holdfast.protocol.faults import Finding, Kind, Weight


def found(kind: Kind) -> e.Found:
    report = Finding(kind=kind, weight=Weight.REPORT, job="job", node="n0", summary="so")
    return e.Found(finding=report)


@pytest.fixture
def again(training):
    """A job that was reported about, deleted, and submitted anew at once."""
    life = training()
    life.do(found(Kind.STORE_FAILED))
    life.do(e.DeleteRequested(job="job"))
    life.answer()
    assert life.state.jobs == {}
    life.submit()
    return life


def of_job(life) -> list[Incident]:
    return job_lives.incidents_of(life.state, "job")


def test_what_hit_the_job_before_is_not_told_of_this_one(again) -> None:
    assert len(again.state.incidents) == 1
    assert of_job(again) == []


def test_the_same_report_is_told_of_this_one_too(again) -> None:
    again.do(found(Kind.STORE_FAILED))
    assert [incident.id for incident in of_job(again)] == [2]
    again.do(found(Kind.STORE_FAILED))
    assert [incident.id for incident in of_job(again)] == [2]


def test_a_fault_of_before_that_hits_it_now_is_told(again) -> None:
    over = again.state.incidents[1]
    assert not hit(over, again.job)
    assert hit(replace(over, closed_s=None), again.job)
    assert hit(replace(over, closed_s=again.job.submitted_s + 1), again.job)


def test_of_a_name_that_no_job_has_all_are_told(again) -> None:
    again.do(e.DeleteRequested(job="job"))
    assert again.state.jobs == {}
    assert [incident.id for incident in of_job(again)] == [1]


@pytest.mark.parametrize(
    ("found_s", "stalled_s", "shown"),
    [(130.0, 10.0, (15.0, 30.0)), (101.0, 0.0, (0.0, 1.0)), (900.0, 600.0, (740.0, 800.0))],
)
def test_what_is_shown_begins_before_the_incident_and_is_a_minute_at_most(
    training, found_s: float, stalled_s: float, shown: tuple[float, float]
) -> None:
    life = training()
    life.do(found(Kind.STORE_FAILED))
    job = replace(life.job, submitted_s=100.0)
    incident = replace(life.state.incidents[1], found_s=found_s, stalled_s=stalled_s)
    assert job_lives.until_found(incident, job) == shown

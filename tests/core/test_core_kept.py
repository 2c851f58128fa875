"""Of incidents that are over the newest stay, and those that still hold of a job."""

from typing import Any

from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.faults import incidents
from holdfast.protocol.faults import Finding, Kind, Weight


def told(life: Any, kind: Kind, text: str = "", job: str = "job") -> None:
    finding = Finding(
        kind=kind,
        weight=Weight.REPORT,
        job=job,
        epoch=life.state.jobs[job].epoch,
        summary=text or kind,
    )
    life.do(e.Found(finding=finding), after_s=life.policy.report_again_s + 1.0)


def others(life: Any, count: int) -> None:
    for number in range(count):
        told(life, Kind.COLLECTIVE_MISMATCH, f"report {number}")


def held(life: Any) -> dict[Kind, Any]:
    return incidents.standing(life.state.incidents.values(), life.state.jobs["job"])


def test_what_still_holds_of_a_job_outlives_any_number_of_reports(training) -> None:
    life = training()
    life.policy = replace(life.policy, kept_incidents=5)
    told(life, Kind.STORE_NOT_SHARED)
    told(life, Kind.STORE_FAILED)
    others(life, 20)
    assert set(held(life)) == {Kind.STORE_NOT_SHARED, Kind.STORE_FAILED}
    assert len(life.state.incidents) == 5
    told(life, Kind.STORE_BACK)
    others(life, 20)
    assert set(held(life)) == {Kind.STORE_NOT_SHARED}
    kinds = [each.kind for each in life.state.incidents.values()]
    assert kinds.count(Kind.STORE_FAILED) == 0, "it was taken back, and is as old as any"


def test_of_what_is_told_again_and_again_the_newest_stays(training) -> None:
    life = training()
    life.policy = replace(life.policy, kept_incidents=5)
    for _ in range(10):
        told(life, Kind.STORE_FAILED)
    others(life, 20)
    kinds = [each.kind for each in life.state.incidents.values()]
    assert (len(kinds), kinds.count(Kind.STORE_FAILED)) == (5, 1)


def test_of_a_job_that_is_over_nothing_is_kept_for_longer(training) -> None:
    life = training()
    life.policy = replace(life.policy, kept_incidents=5)
    told(life, Kind.STORE_FAILED)
    life.ends_well()
    assert life.job.finished
    life.submit("next", nodes=1, ranks_per_node=1)
    for number in range(10):
        told(life, Kind.COLLECTIVE_MISMATCH, f"report {number}", job="next")
    assert Kind.STORE_FAILED not in [each.kind for each in life.state.incidents.values()]

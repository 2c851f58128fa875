"""What follows from a TrainingJob and its job: what is asked for, and its status."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from made_jobs import made_job
from made_objects import JOB, Object
from msgspec.structs import replace

from holdfast.driver.adapters.kubernetes import jobs, status
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Incident, Job, Phase, State, Wanted
from holdfast.driver.core.state.node import Free, Held, Node, Promised
from holdfast.driver.core.state.restore_point import RestorePoint, Where
from holdfast.driver.core.state.versions import Version
from holdfast.protocol.faults import Blame, Kind


def core_job(**fields: Any) -> Job:
    event = jobs.missing(JOB, None, "speech")
    assert isinstance(event, e.JobSubmitted)
    return made_job("speech", event.plan, **({"phase": Phase.PENDING} | fields))


def changed_spec(**spec: Any) -> Object:
    return JOB | {"spec": {**JOB["spec"], **spec}}


def test_a_new_object_is_submitted_under_its_uid() -> None:
    job = core_job()
    assert jobs.uid_of(job) == "uid-1"
    assert json.loads(job.plan.spec)["metadata"]["namespace"] == "lab"


def test_without_a_store_of_its_own_nothing_is_written_to_the_pods_disk_as_if_it_were_one() -> None:
    assert core_job().plan.task.store_interval_steps == 0
    stored = changed_spec(checkpoint={"storeUrl": "file:///bucket"})
    event = jobs.missing(stored, None, "speech")
    assert isinstance(event, e.JobSubmitted)
    assert event.plan.task.store_interval_steps == 50


@pytest.mark.parametrize(
    ("wanted", "job", "request_"),
    [
        (JOB, {}, None),
        (changed_spec(suspend=True), {}, e.SuspendRequested),
        (changed_spec(suspend=True), {"wanted": Wanted.SUSPEND}, None),
        (JOB, {"wanted": Wanted.SUSPEND}, e.ResumeRequested),
        (None, {}, e.DeleteRequested),
        (None, {"wanted": Wanted.DELETE}, None),
        (None, {"wanted": Wanted.DELETE, "phase": Phase.STOPPED}, e.DeleteRequested),
        (changed_spec(suspend=True), {"phase": Phase.SUCCEEDED}, None),
        (changed_spec(suspend=True), {"ends": Phase.SUCCEEDED}, None),
        (JOB, {"ends": Phase.FAILED, "wanted": Wanted.SUSPEND}, None),
        (None, {"ends": Phase.FAILED}, e.DeleteRequested),
        (
            JOB | {"metadata": {**JOB["metadata"], "uid": "uid-2"}},
            {"phase": Phase.RUNNING},
            e.DeleteRequested,
        ),
        (
            JOB | {"metadata": {**JOB["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            {},
            e.DeleteRequested,
        ),
    ],
)
def test_what_an_object_wants_and_the_core_does_not_have_is_asked_for(
    wanted: Object | None, job: Object, request_: type | None
) -> None:
    asked = jobs.missing(wanted, core_job(**job), "speech")
    assert type(asked) is (request_ or type(None))


def test_a_job_that_was_over_before_is_never_started_again() -> None:
    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert jobs.missing(JOB | {"status": over}, None, "speech") is None


def test_an_object_of_which_no_job_can_be_made_is_refused_with_its_field() -> None:
    spec = {key: value for key, value in JOB["spec"].items() if key != "pod"}
    with pytest.raises(jobs.Refused, match=r"spec\.pod"):
        jobs.missing(JOB | {"spec": spec}, None, "speech")


def test_a_changed_spec_is_named_by_its_fields_and_suspend_is_none_of_them() -> None:
    assert jobs.changed(changed_spec(suspend=True), core_job()) == ""
    assert jobs.changed(changed_spec(nodes=3), core_job()).startswith("spec.nodes: changed")


def test_what_may_change_is_another_version_in_the_folder_of_its_checkpoints() -> None:
    job, wanted = core_job(), changed_spec(env={"LR": "1e-4"}, suspend=False)
    event = jobs.missing(wanted, job, "speech")
    assert isinstance(event, e.UpdateRequested)
    assert (event.fields, event.plan.task.env["LR"]) == (("env",), "1e-4")
    assert event.plan.task.store_url == job.plan.task.store_url
    version = Version(number=2, plan=event.plan, at_s=1.0)
    newer = replace(job, versions=(*job.versions, version))
    assert jobs.uid_of(newer) == "uid-1"
    assert jobs.missing(wanted, newer, "speech") is None
    back = Version(number=3, plan=job.plan, at_s=2.0, again=1)
    went_back = replace(newer, versions=(*newer.versions, back))
    assert jobs.missing(wanted, went_back, "speech") is None, "it is not tried again and again"
    assert isinstance(jobs.missing(JOB, went_back, "speech"), e.UpdateRequested), (
        "a person went back"
    )


@pytest.mark.parametrize(
    "more", [{"nodes": 3}, {"checkpoint": {"storeUrl": "file:///bucket"}}, {"env": {"RANK": "1"}}]
)
def test_with_what_has_to_stay_nothing_is_followed(more: Object) -> None:
    assert jobs.missing(changed_spec(**({"env": {"LR": "1e-4"}} | more)), core_job(), "s") is None


def test_what_is_new_in_the_spec_since_a_job_was_accepted_is_no_change_of_it() -> None:
    job = core_job()
    document = json.loads(job.plan.spec)
    del document["spec"]["suspend"], document["spec"]["checkpoint"]
    earlier = made_job("speech", replace(job.plan, spec=json.dumps(document).encode()))
    assert jobs.changed(JOB, earlier) == ""


def test_the_object_of_a_job_that_is_over_lives_as_long_as_it_says() -> None:
    over = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ended = changed_spec(ttlS=60) | {"status": {"conditions": [over]}}
    now = datetime(2026, 1, 1, 0, 0, 50, tzinfo=UTC)
    assert jobs.left_s(ended, now) == 10.0
    assert jobs.left_s(changed_spec(ttlS=60), now) is None, "it runs"
    assert jobs.left_s(JOB | {"status": ended["status"]}, now) is None, "for ever"


def test_the_core_forgets_no_job_before_the_status_of_its_object_says_that_it_is_over() -> None:
    """Else it would be taken for a new one: the object's end is what ends it."""
    wanted = changed_spec(ttlS=0)
    submitted = jobs.missing(wanted, None, "speech")
    assert isinstance(submitted, e.JobSubmitted)
    assert submitted.plan.ttl_s is None
    assert json.loads(submitted.plan.spec)["spec"]["ttlS"] == 0


def told(
    job: Job,
    before: Object | None = None,
    at: str = "now",
    changed: str = "",
    hindered: str = "",
    bound: tuple[str, ...] = ("a", "b"),
) -> Object:
    nodes = {
        name: Node(name=name, holding=Held(job="speech") if name in bound else Free())
        for name in ("a", "b")
    }
    return status.status_of(
        job,
        State(jobs={"speech": job}, nodes=nodes),
        live=None,
        pods_ready=1,
        hindrance="",
        changed=changed,
        hindered=hindered,
        before=before or {},
        generation=4,
        at=at,
    )


def test_what_cannot_be_done_now_comes_first_of_all_that_is_said() -> None:
    said = told(core_job(), hindered="job: 'speech' is parked. Stop it.")
    assert said["message"].startswith("job: 'speech' is parked. Stop it.")
    accepted = condition(said, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "NotNow")
    assert said["phase"] == "Pending"


def condition(said: Object, kind: str) -> Object:
    return next(each for each in said["conditions"] if each["type"] == kind)


def test_a_job_is_allocated_once_each_of_its_places_has_its_pod() -> None:
    half = core_job(phase=Phase.ALLOCATING, places=("a", "b"))
    assert condition(told(half, bound=("b",)), "Allocated")["status"] == "False"
    assert condition(told(half), "Allocated")["status"] == "True"
    missing = core_job(phase=Phase.REPLACING, places=("a", ""))
    assert condition(told(missing), "Allocated")["status"] == "False"


def test_a_node_that_is_bound_has_its_job_looked_at_though_that_did_not_change() -> None:
    job = core_job(phase=Phase.ALLOCATING, places=("a",))
    before = State(
        jobs={"speech": job}, nodes={"a": Node(name="a", holding=Promised(job="speech"))}
    )
    bound = {"a": Node(name="a", holding=Held(job="speech"))}
    after = State(jobs={"speech": job}, nodes=bound)
    assert status.given_anew(before, after) == {"speech"}
    assert status.given_anew(after, after) == set()
    assert status.given_anew(after, State(jobs={"speech": job}, nodes=dict(bound))) == set()


def test_a_condition_keeps_the_time_at_which_it_turned() -> None:
    first = told(core_job(), at="first")
    second = told(core_job(phase=Phase.RUNNING, places=("a", "b")), first, at="second")
    assert condition(second, "Running")["lastTransitionTime"] == "second"
    assert condition(second, "Accepted")["lastTransitionTime"] == "first"
    assert {each["observedGeneration"] for each in second["conditions"]} == {4}


def test_a_job_that_saves_before_it_ends_does_not_recover() -> None:
    ending = {"phase": Phase.SUSPENDING, "attempt": 1}
    assert condition(told(core_job(**ending)), "Recovering")["status"] == "True"
    over = told(core_job(**ending, ends=Phase.SUCCEEDED))
    assert condition(over, "Recovering")["status"] == "False"


def test_a_changed_spec_is_said_not_to_be_accepted_while_the_job_goes_on() -> None:
    said = told(core_job(phase=Phase.RUNNING), changed="spec.nodes: changed")
    assert condition(said, "Accepted")["status"] == "False"
    assert condition(said, "Accepted")["message"] == "spec.nodes: changed"
    assert condition(said, "Running")["status"] == "True"


@pytest.mark.parametrize("phase", list(Phase))
def test_exactly_what_is_over_is_never_started_again(phase: Phase) -> None:
    said = told(core_job(phase=phase))
    assert status.ended(said) == core_job(phase=phase).finished


@pytest.mark.parametrize("phase", list(Phase))
def test_of_a_job_that_is_over_no_pod_is_ready_any_more(phase: Phase) -> None:
    job = core_job(phase=phase)
    assert told(job)["ready"].startswith("0/" if job.finished else "1/")


def test_only_progress_may_wait_to_be_written() -> None:
    first, further = told(core_job(best_step=1)), told(core_job(best_step=2))
    assert first != further
    assert status.urgent(first) == status.urgent(further)
    assert status.urgent(first) != status.urgent(told(core_job(attempt=1)))


def test_of_pods_that_become_ready_one_by_one_the_last_is_told_at_once() -> None:
    none, some, every = ({"ready": f"{count}/3"} for count in (0, 2, 3))
    assert status.urgent(none) == status.urgent(some)
    assert status.urgent(some) != status.urgent(every)


def test_the_last_stored_step_is_told_with_the_progress() -> None:
    stored = told(core_job(points=(RestorePoint(step=10, epoch=1, where=Where.STORE),)))
    assert stored["storedStep"] == 10
    assert status.urgent(stored) == status.urgent(told(core_job()))


def test_a_suspended_job_tells_the_step_that_it_had_reached() -> None:
    job = core_job(phase=Phase.SUSPENDED, best_step=1, reached=e.Reached(step=77))
    assert told(job)["step"] == 77


def test_a_store_that_is_not_shared_is_a_condition_until_it_is() -> None:
    job = core_job()
    said = [
        Incident(
            id=number,
            opened=number,
            kind=kind,
            blame=Blame.INFRASTRUCTURE,
            found_s=9.0,
            summary="so",
            jobs=("speech",),
        )
        for number, kind in enumerate((Kind.STORE_NOT_SHARED, Kind.STORE_SHARED), 1)
    ]
    told_so = [
        status._said(job, State(incidents={each.id: each for each in said[:count]}), "", "", "")
        for count in range(3)
    ]
    shared = [[each.true for each in one if each.type == "StoreShared"] for one in told_so]
    assert shared == [[], [False], [True]]

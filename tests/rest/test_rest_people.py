"""People's requests where others judge who may what, and where jobs are objects elsewhere."""

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.driver.adapters.rest.app import make_app
from holdfast.driver.adapters.rest.description import operations
from holdfast.driver.adapters.rest.guard import PREFIX
from holdfast.driver.adapters.rest.rights import RIGHTS
from holdfast.driver.core import events
from holdfast.driver.people.access import InTheWay, NotAllowed, NotThere, Right, Stranger
from holdfast.driver.ports import TemporaryError
from holdfast.page.words import outcome
from holdfast.protocol.messages import Task

NAME = "lab.speech"


class WrittenDown:
    """Objects that a test reads back."""

    def __init__(self) -> None:
        self.did: list[tuple[str, str, str]] = []

    async def submit(self, token: str, document: Mapping[str, Any]) -> str:
        self.did.append((token, "submit", document["metadata"]["name"]))
        return NAME

    async def suspend(self, token: str, job: str, *, suspend: bool) -> None:
        self.did.append((token, "suspend" if suspend else "resume", job))

    async def delete(self, token: str, job: str) -> None:
        self.did.append((token, "delete", job))


class Judge:
    """Lets everybody through, but for what it is told to say."""

    def __init__(self) -> None:
        self.objects = WrittenDown()
        self.asked: list[tuple[Right, str]] = []
        self.says: Exception | None = None

    async def check(self, token: str, right: Right, job: str = "") -> None:
        self.asked.append((right, job))
        if self.says is not None:
            raise self.says


@pytest.fixture
def judge(driver) -> Judge:
    driver.control.people = Judge()
    return driver.control.people


async def test_each_request_that_changes_a_job_is_done_to_its_object_with_the_callers_token(
    driver, judge: Judge, token: str
) -> None:
    submitted = await driver.submit()
    assert submitted.status_code == 201
    assert submitted.json()["name"] == NAME
    assert submitted.headers["Location"] == f"/v1alpha1/jobs/{NAME}"
    shown = f"`holdfast status {NAME} --watch` shows it"
    for method, path, why in (
        ("POST", "/suspend", f"{NAME} is being suspended: {shown}"),
        ("POST", "/resume", f"{NAME} goes on once it has nodes: {shown}"),
        ("DELETE", "", f"{NAME} is being deleted"),
    ):
        answer = await driver.http.request(method, f"/v1alpha1/jobs/{NAME}{path}")
        assert (answer.status_code, answer.json()["why"]) == (202, why)
        assert outcome(NAME, why) == why, "it is told to people as it is"
    done = [(token, "submit", "speech")]
    done += [(token, what, NAME) for what in ("suspend", "resume", "delete")]
    assert judge.objects.did == done
    assert driver.control.state.jobs == {}


async def test_an_object_whose_job_is_over_is_not_said_to_be_suspended(
    driver, judge: Judge
) -> None:
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
    await driver.happened(
        events.JobSubmitted(job=NAME, plan=plan), events.StopRequested(job=NAME, by="a person")
    )
    answer = await driver.http.post(f"/v1alpha1/jobs/{NAME}/suspend")
    assert answer.status_code == 409
    assert f"{NAME!r} is Stopped and stays so" in answer.json()["detail"]
    assert judge.objects.did == []


async def test_an_object_goes_on_only_where_its_job_can_begin_at_the_step_that_is_asked_for(
    driver, judge: Judge, token: str
) -> None:
    """Else it would be let go on, and from another one."""
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
    await driver.happened(
        events.JobSubmitted(job=NAME, plan=plan), events.SuspendRequested(job=NAME, by="its object")
    )
    at = f"/v1alpha1/jobs/{NAME}/resume"
    refused = await driver.http.post(at, params={"from_step": 5})
    assert refused.status_code == 404
    assert judge.objects.did == []
    taken = await driver.http.post(at, params={"from_step": 0})
    assert taken.status_code == 202
    assert judge.objects.did == [(token, "resume", NAME)]
    assert driver.control.state.jobs[NAME].granted == 0


@pytest.mark.parametrize(
    ("says", "status"),
    [
        (Stranger("the API server does not know this token."), 401),
        (NotAllowed("ada may not get trainingjobs."), 403),
        (NotThere("there is no such object."), 404),
        (InTheWay("the name is taken."), 409),
        (TemporaryError("the API server does not answer"), 503),
    ],
)
async def test_what_others_judge_is_told_as_a_problem(
    driver, judge: Judge, says: Exception, status: int
) -> None:
    judge.says = says
    answer = await driver.http.get("/v1alpha1/jobs/speech")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == str(says)


@pytest.mark.parametrize(
    ("path", "right", "which"),
    [
        ("/jobs", Right.SEE_JOBS, ""),
        ("/jobs?name=lab.*", Right.SEE_JOBS, "lab.*"),
        ("/jobs/lab.speech/why", Right.SEE_JOB, NAME),
        ("/jobs/lab.speech/ranks/0/logs", Right.READ_LOGS, NAME),
        ("/incidents?job=lab.speech", Right.SEE_JOBS, NAME),
        ("/nodes", Right.SEE_NODES, ""),
    ],
)
async def test_the_right_that_is_asked_for_is_that_of_the_operation(
    driver, judge: Judge, path: str, right: Right, which: str
) -> None:
    await driver.http.get(f"/v1alpha1{path}")
    assert judge.asked == [(right, which)]


async def test_a_key_is_refused_where_it_would_not_be_kept(driver, judge: Judge) -> None:
    headers = {"Idempotency-Key": "one"}
    answer = await driver.http.post("/v1alpha1/jobs", json={"metadata": {}}, headers=headers)
    assert answer.status_code == 422
    assert judge.objects.did == []


@pytest.mark.parametrize("document", [[], {"metadata": "speech"}, {"metadata": None}, 7])
async def test_what_is_no_job_is_refused_before_anybody_is_asked(
    driver, judge: Judge, document: Any
) -> None:
    answer = await driver.http.post("/v1alpha1/jobs", json=document)
    assert answer.status_code == 422
    assert judge.objects.did == []


async def test_every_operation_that_needs_a_token_has_its_right(driver) -> None:
    document = make_app(driver.control).openapi()
    guarded = {name for name, _, each in operations(document, PREFIX) if "security" in each}
    assert guarded == set(RIGHTS)

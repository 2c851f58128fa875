"""A job is found by the end of its name, too, of those that whoever asks may have."""

import asyncio

import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_people import WrittenDown

from holdfast.cli.asking import Live
from holdfast.cli.client import Client
from holdfast.cli.errors import Stopped
from holdfast.driver.adapters.rest import naming
from holdfast.driver.core import events
from holdfast.driver.people.access import NotAllowed, NotThere, Right
from holdfast.protocol.messages import Task

JOBS = "/v1alpha1/jobs"
PLAN = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)


class Judge:
    """As the API server does: a job has a namespace, and each right is of one of them."""

    def __init__(self) -> None:
        self.objects = WrittenDown()
        self.namespaces = {"lab", "team"}
        self.rights = set(Right)

    async def check(self, token: str, right: Right, job: str = "") -> None:
        about_one = right in (Right.SEE_JOB, Right.CHANGE_JOB, Right.DELETE_JOB)
        if about_one and "." not in job:
            raise NotThere(f"there is no job {job!r}.", fix="Name its namespace, too.")
        if right not in self.rights or (about_one and job.split(".")[0] not in self.namespaces):
            raise NotAllowed(f"you may not {right}.", fix=f"Ask to {right}.")


@pytest.fixture
async def judge(driver: Driver) -> Judge:
    for name in ("lab.speech", "team.speech", "lab.vision"):
        await driver.happened(events.JobSubmitted(job=name, plan=PLAN))
    await driver.happened(events.NodeAppeared(node="node-1"))
    judge = Judge()
    driver.control.people = judge
    return judge


async def test_the_end_of_a_name_that_one_job_has_is_that_job(driver: Driver, judge: Judge) -> None:
    assert (await driver.http.get(f"{JOBS}/vision")).json()["name"] == "lab.vision"
    done = await driver.http.post(f"{JOBS}/vision/suspend")
    assert done.json()["name"] == "lab.vision"
    assert [(what, job) for _, what, job in judge.objects.did] == [("suspend", "lab.vision")]
    (listed,) = (await driver.http.get(f"{JOBS}?name=vis*")).json()["items"]
    assert listed["name"] == "lab.vision"


async def test_where_several_fit_they_are_listed_and_nothing_is_done(
    driver: Driver, judge: Judge
) -> None:
    answer = await driver.http.delete(f"{JOBS}/speech")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "'speech' may be any of lab.speech, team.speech."
    assert judge.objects.did == []


async def test_those_that_the_person_may_not_have_are_not_meant(
    driver: Driver, judge: Judge
) -> None:
    judge.namespaces = {"team"}
    assert (await driver.http.get(f"{JOBS}/speech")).json()["name"] == "team.speech"
    assert (await driver.http.get(f"{JOBS}/vision")).status_code == 403


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("speach", "Did you mean lab.speech or team.speech?"),
        ("else", "Jobs that there are: lab.speech, lab.vision, team.speech."),
    ],
)
async def test_where_none_fits_it_is_said_what_there_is_to_who_may_know(
    driver: Driver, judge: Judge, name: str, fix: str
) -> None:
    answer = await driver.http.post(f"{JOBS}/{name}/suspend")
    assert (answer.status_code, answer.json()["fix"]) == (404, fix)
    judge.rights = {Right.CHANGE_JOB}
    answer = await driver.http.post(f"{JOBS}/{name}/suspend")
    assert (answer.status_code, answer.json()["fix"]) == (404, "Name its namespace, too.")


async def test_an_object_of_which_no_job_was_made_can_be_deleted(
    driver: Driver, judge: Judge
) -> None:
    assert (await driver.http.delete(f"{JOBS}/lab.refused")).status_code == 202
    assert [job for _, _, job in judge.objects.did] == ["lab.refused"]


@pytest.mark.parametrize(
    ("name", "lacks", "said"),
    [
        ("node-1", {Right.SEE_NODES}, "you may not see nodes."),
        ("lab.vision", {Right.SEE_JOB, Right.SEE_NODES}, "you may see neither a job nor a node"),
        ("lab.vision", {Right.SEE_JOB}, "you may not see the job."),
        ("spam", set(), "there is no job or node 'spam'."),
    ],
)
async def test_why_tells_of_the_right_that_what_was_asked_about_needs(
    driver: Driver, judge: Judge, name: str, lacks: set[Right], said: str
) -> None:
    judge.rights -= lacks
    asked = Live(Client(str(driver.http.base_url), "token"))
    with pytest.raises(Stopped) as stopped:
        await asyncio.to_thread(asked.why, name)
    assert stopped.value.sentence.startswith(said)


def test_a_name_is_whole_before_it_is_the_end_of_one() -> None:
    assert naming.fitting("speech", ["lab.speech", "speech"]) == ["speech"]


@pytest.mark.parametrize(
    ("count", "end"),
    [(10, "job08, job09."), (11, "job08, job09 and 1 more."), (1_210, "job09 and 1,200 more.")],
)
def test_of_many_jobs_the_first_are_named_and_the_others_counted(count: int, end: str) -> None:
    fix = naming.instead("job", "else", (f"job{k:02}" for k in range(count)))
    assert fix.startswith("Jobs that there are: job00, job01,")
    assert fix.endswith(end)

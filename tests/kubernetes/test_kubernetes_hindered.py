"""What a TrainingJob asks for and cannot have now: its status says so, and it asks again."""

from datetime import UTC, datetime
from typing import Any

import pytest
from made_jobs import made_job
from made_objects import JOB, Object
from written_status import Written

from holdfast.driver.adapters.kubernetes import jobs
from holdfast.driver.adapters.kubernetes.operator import Operator
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.batch.inbox import NotAccepting, Refused
from holdfast.driver.core.events import JobSubmitted
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.people.admission import Refusal
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.driver.watch import Watch

FULL = "the journal has no room. Free some."
PARKED = "job: 'speech' is parked (a mistake). Stop it, or ask again then."


class Objects:
    def __init__(self, wanted: Object) -> None:
        self.wanted = wanted

    def owner(self, name: str) -> Object:
        return self.wanted


class Clock:
    def monotonic_s(self) -> float:
        return 0.0

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class Loop:
    """A core that answers each request so."""

    post = print

    def __init__(self, answer: Exception, job: Job | None = None) -> None:
        self.state = State(jobs={"speech": job} if job else {})
        self._answer = answer

    async def request(self, event: object) -> None:
        raise self._answer


async def looked_at(loop: Loop, wanted: Object, error: type[Exception]) -> Object:
    """The status of the object after a look at it, which raises that."""
    client = Written()
    operator: Any = Operator(
        client,  # type: ignore[arg-type]
        Objects(wanted),  # type: ignore[arg-type]
        loop=loop,  # type: ignore[arg-type]
        watch=Watch(),
        book=PodBook(),
        clock=Clock(),  # type: ignore[arg-type]
    )
    with pytest.raises(error):  # so that the queue asks again
        await operator._bring_about("speech")
    (said,) = client.said
    return said


def accepted(said: Object) -> tuple[str, str, str]:
    (told,) = [each for each in said["conditions"] if each["type"] == "Accepted"]
    return told["status"], told["reason"], told["message"]


async def test_a_job_that_the_journal_has_no_room_for_waits_and_says_why() -> None:
    said = await looked_at(Loop(NotAccepting(FULL)), JOB, TemporaryError)
    assert (said["phase"], said["message"]) == ("Pending", FULL)
    assert accepted(said) == ("False", "NotNow", FULL)


async def test_what_a_parked_job_does_not_do_is_said_in_its_status_and_not_in_a_log_alone() -> None:
    submitted = jobs.missing(JOB, None, "speech")
    assert isinstance(submitted, JobSubmitted)
    job = made_job("speech", submitted.plan, parked="a mistake")
    wanted = {**JOB, "spec": {**JOB["spec"], "suspend": True}}
    said = await looked_at(
        Loop(Refused(Refusal("parked-job", PARKED)), job), wanted, PermanentError
    )
    assert said["message"] == f"{PARKED}; a mistake"
    assert accepted(said) == ("False", "NotNow", PARKED)
    assert said["phase"] == "Running"

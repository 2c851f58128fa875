"""Events of a job's transitions: what they say, and that nobody waits for one."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from made_jobs import made_job
from waiting import eventually_async

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.events import (
    Braked,
    Met,
    Rejected,
    Teller,
    Turned,
    event_of,
)
from holdfast.driver.adapters.kubernetes.notes import MAX_NOTE_BYTES
from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.model import Brake, Failure, Incident, Phase
from holdfast.kubeapi.errors import AlreadyExists, Forbidden
from holdfast.protocol.faults import Blame, Kind
from holdfast.protocol.messages import Task

OBJECT = {"metadata": {"namespace": "ai", "name": "speech", "uid": "0123456789"}}
AT = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


def turned(entry: int = 7, news: str = "", **fields: Any) -> Turned:
    plan = Plan(task=Task(command=("train",), workdir="."), nodes=1, ranks_per_node=1)
    return Turned(OBJECT, made_job("speech", plan, **fields), news, 2, entry, AT)


def test_an_event_is_about_its_object_and_says_phase_and_reason() -> None:
    event = event_of(turned(why="speech runs"))
    assert event["regarding"]["uid"] == OBJECT["metadata"]["uid"]
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == (names.KIND, "speech")
    assert (event["type"], event["reason"], event["note"]) == ("Normal", "Running", "speech runs")
    assert event["eventTime"] == "2026-01-02T03:04:05.000600Z"


def test_events_of_one_object_have_names_in_the_order_of_their_entries() -> None:
    told = [event_of(turned(entry))["metadata"]["name"] for entry in (4, 15, 100)]
    assert told == sorted(told)
    assert len(set(told)) == 3


def test_trouble_is_a_warning_with_the_incident_before_what_is_done_about_it() -> None:
    event = event_of(turned(phase=Phase.SUSPENDING, incident=1, news="n1 is lost", why="n2 comes"))
    assert (event["type"], event["note"]) == ("Warning", "n1 is lost; n2 comes")
    failure = Failure(traceback="Traceback: no", reason="3 restarts in an hour")
    event = event_of(turned(phase=Phase.FAILED, failure=failure))
    assert (event["type"], event["note"]) == ("Warning", "3 restarts in an hour\nTraceback: no")


def test_the_brake_is_told_beside_a_phase_of_the_same_entry() -> None:
    why = "4 of 8 nodes were evicted within 60 s, node-7 next"
    event = event_of(Braked(OBJECT, Brake(on=True, why=why), 2, 7, AT))
    assert (event["type"], event["reason"]) == ("Warning", "BrakeApplied")
    assert why in event["note"]
    assert event["metadata"]["name"] != event_of(turned(7))["metadata"]["name"]
    released = event_of(Braked(OBJECT, Brake(on=False, why="ada: mended"), 2, 9, AT))
    assert (released["type"], released["reason"]) == ("Normal", "BrakeReleased")


def test_an_incident_is_told_by_its_kind_beside_the_phase_of_the_same_entry() -> None:
    summary = "the cluster says of n1: GPUMissing is True: 7 of 8"
    values = {"kind": Kind.NODE_PROBLEM, "blame": Blame.INFRASTRUCTURE, "summary": summary}
    event = event_of(Met(OBJECT, incident(**values), 2, 7, AT))
    assert (event["type"], event["reason"], event["note"]) == ("Warning", "NodeProblem", summary)
    assert event["metadata"]["name"] != event_of(turned(7))["metadata"]["name"]
    values = {"kind": Kind.MAINTENANCE, "blame": Blame.UNKNOWN, "summary": "speech moves off n1"}
    event = event_of(Met(OBJECT, incident(**values), 2, 7, AT))
    assert (event["type"], event["reason"]) == ("Normal", "Maintenance")


def incident(**fields: Any) -> Incident:
    values = {"id": 1, "jobs": ("speech",), "opened": 7, "found_s": 0.0}
    return Incident(**values, **fields)


def test_a_refusal_is_one_warning_for_each_version_of_its_object() -> None:
    wanted = {"metadata": {**OBJECT["metadata"], "generation": 3}}
    why = "spec.pod: it is missing."
    first, again = (event_of(Rejected(wanted, why, 2, entry, AT)) for entry in (7, 8))
    assert (first["type"], first["reason"], first["note"]) == ("Warning", "Refused", why)
    assert first["metadata"]["name"] == again["metadata"]["name"]


@given(st.text(max_size=3 * MAX_NOTE_BYTES))
def test_a_note_is_never_longer_than_the_api_server_takes(why: str) -> None:
    assert len(event_of(turned(why=why))["note"].encode()) <= MAX_NOTE_BYTES


class Answers:
    """A client that answers each event by its place in the line."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.written: list[str] = []

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.written.append(body["metadata"]["name"])
        if (error := self._errors.pop(0)) is not None:
            raise error
        return body


async def test_an_event_that_is_there_or_not_wanted_does_not_hold_up_the_next() -> None:
    client = Answers(AlreadyExists("it is there"), Forbidden("the namespace is going"), None)
    teller = Teller(client)  # type: ignore[arg-type]
    for entry in (1, 2, 3):
        teller.tell(turned(entry))
    running = asyncio.create_task(teller.run())
    await eventually_async(lambda: len(client.written) == 3, "all were tried")
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])

"""What comes bit by bit: the journal as events, and a rank's log."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.rest.conftest import JOB, Driver
from tests.rest.test_rest_nodes import NODE
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.core import events
from holdfast.driver.ports import Kept

EVENTS = "/v1alpha1/events"
LOG = "/v1alpha1/jobs/speech/ranks/1/logs"


@contextlib.asynccontextmanager
async def stream(driver: Driver, **asked: Any) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with driver.http.stream("GET", EVENTS, **asked) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _parsed(answer.aiter_lines())


async def _parsed(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    got: dict[str, Any] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if not line and "data" in got:
            yield {**json.loads(got["data"]), "id": int(got["id"]), "named": got["event"]}
            got = {}
        elif name:
            got[name] = value


async def take(entries: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(DEADLINE_S):
        return [await anext(entries) for _ in range(count)]


async def test_events_come_from_the_beginning_and_then_as_they_happen(driver: Driver) -> None:
    async with stream(driver) as entries:
        (first,) = await take(entries, 1)
        assert (first["id"], first["named"], first["kind"]) == (1, "DriverStarted", "DriverStarted")
        await driver.submit()
        (second,) = await take(entries, 1)
        assert (second["kind"], second["jobs"]) == ("JobSubmitted", ["speech"])
        assert second["why"]
        assert second["at"]


async def test_a_reader_goes_on_after_the_last_event_it_has_seen(driver: Driver) -> None:
    await driver.submit()
    await driver.submit(name="other")
    async with stream(driver) as entries:
        seen = await take(entries, 3)
    last = {"Last-Event-ID": str(seen[1]["id"])}
    async with stream(driver, headers=last) as entries:
        assert (await take(entries, 1))[0]["id"] == seen[2]["id"]


async def test_events_of_one_job_are_only_its_own(driver: Driver) -> None:
    await driver.submit(name="other")
    await driver.submit()
    async with stream(driver, params={"job": "speech"}) as entries:
        assert (await take(entries, 1))[0]["jobs"] == ["speech"]


async def seated(driver: Driver) -> None:
    """The job has a node, so that its ranks are somewhere."""
    await driver.submit()
    await driver.happened(*NODE)
    await driver.happened(events.NodeAllocated(job="speech", node="node-1"))


async def test_a_log_is_read_whole_or_from_its_end(driver: Driver) -> None:
    await seated(driver)
    text = b"".join(b"line %d\n" % number for number in range(20_000))
    driver.nodes.logs["speech", 1, 1, "stdout"] = text
    whole = await driver.http.get(LOG)
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.content == text
    assert (await driver.http.get(LOG, params={"tail": 2})).text == "line 19998\nline 19999\n"
    assert (await driver.http.get(LOG, params={"tail": 0})).text == ""
    assert (await driver.http.get(LOG, params={"stream": "stderr"})).text == ""


async def test_a_followed_log_goes_on_until_the_job_is_over(driver: Driver) -> None:
    await seated(driver)
    key = ("speech", 1, 1, "stdout")
    driver.nodes.logs[key] = b"one\n"
    async with driver.http.stream("GET", LOG, params={"follow": True}) as answer:
        lines = answer.aiter_lines()
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(lines) == "one"
            driver.nodes.logs[key] += b"two\n"
            assert await anext(lines) == "two"
            await driver.http.delete("/v1alpha1/jobs/speech")
            await driver.happened(events.NodeVanished(node="node-1"))
            await driver.http.post("/v1alpha1/nodes/node-1/evict", json={"reason": "gone"})
            await _until_over(driver, key[0])
            assert [line async for line in lines] == []


async def _until_over(driver: Driver, job: str) -> None:
    def over() -> bool:
        found = driver.control.state.jobs.get(job)
        return found is None or found.finished

    await eventually_async(over)


@pytest.mark.parametrize("rank", [2, -1])
async def test_a_log_of_a_rank_that_is_not_is_a_problem(driver: Driver, rank: int) -> None:
    await seated(driver)
    answer = await driver.http.get(f"/v1alpha1/jobs/speech/ranks/{rank}/logs")
    assert answer.status_code == 404
    assert "ranks 0 to 1" in answer.json()["detail"]


async def test_a_log_on_a_node_that_does_not_answer_is_a_problem(driver: Driver) -> None:
    await seated(driver)
    driver.nodes.unreachable = "node-1 did not answer in 5 s"
    answer = await driver.http.get(LOG)
    assert answer.status_code == 503
    assert "node-1" in answer.json()["detail"]


async def test_a_log_that_is_not_there_yet_is_a_problem_and_is_waited_for_when_followed(
    driver: Driver,
) -> None:
    await seated(driver)
    driver.nodes.no_logs = True
    answer = await driver.http.get(LOG)
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert "has not run" in answer.json()["detail"]
    async with driver.http.stream("GET", LOG, params={"follow": True}) as followed:
        assert followed.status_code == 200
        driver.nodes.logs["speech", 1, 1, "stdout"] = b"one\n"
        driver.nodes.no_logs = False
        async with asyncio.timeout(DEADLINE_S):
            assert await anext(followed.aiter_lines()) == "one"


@pytest.mark.parametrize("follow", [False, True])
async def test_an_attempt_that_was_never_made_is_a_problem(driver: Driver, follow: bool) -> None:
    await seated(driver)
    answer = await driver.http.get(LOG, params={"attempt": 99, "follow": follow})
    assert answer.status_code == 404
    assert "has not run" in answer.json()["detail"]


async def test_logs_of_an_ended_job_are_read_from_the_drivers_folder(driver: Driver) -> None:
    await driver.submit()
    await driver.http.post("/v1alpha1/jobs/speech/stop")
    await _until_over(driver, "speech")
    never = await driver.http.get(LOG)
    assert (never.status_code, "has not run" in never.json()["detail"]) == (404, True)
    folder = driver.control.settings.paths.rank("speech", 1, 1)
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_bytes(b"one\ntwo\n")
    assert (await driver.http.get(LOG, params={"tail": 1})).text == "two\n"
    assert (await driver.http.get(LOG, params={"follow": True})).text == "one\ntwo\n"


async def test_logs_of_a_job_whose_pods_are_gone_are_its_last_lines(driver: Driver) -> None:
    await driver.submit()
    await driver.http.post("/v1alpha1/jobs/speech/stop")
    await _until_over(driver, "speech")
    number = driver.control.state.jobs["speech"].number
    kept = Kept(job="speech", rank=1, number=number, attempt=1, stdout=b"a\nb\n", stderr=b"\xff")
    await driver.control.last_lines.keep([kept], jobs=["speech"])
    assert (await driver.http.get(LOG)).text == "a\nb\n"
    assert (await driver.http.get(LOG, params={"tail": 1, "follow": True})).text == "b\n"
    assert (await driver.http.get(LOG, params={"stream": "stderr"})).content == b"\xff"
    await driver.control.last_lines.keep([replace(kept, number=number + 1)], jobs=["speech"])
    assert (await driver.http.get(LOG)).status_code == 404, "they are another job's of that name"


async def test_progress_is_null_before_the_first_heartbeat(driver: Driver) -> None:
    await driver.http.post("/v1alpha1/jobs", json=JOB)
    answer = await driver.http.get("/v1alpha1/jobs/speech/progress")
    assert (answer.status_code, answer.json()) == (200, None)


async def test_a_sequence_that_no_journal_can_have_is_a_mistake_in_the_query(
    driver: Driver,
) -> None:
    far = str(2**63)
    for asked in ({"params": {"after": far}}, {"headers": {"Last-Event-ID": far}}):
        answer = await driver.http.get(EVENTS, **asked)
        assert answer.status_code == 422
        assert "at most 9223372036854775807" in answer.json()["errors"][0]["fix"]

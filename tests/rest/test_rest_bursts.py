"""Bursts as people ask for them: the interface, the picture on a page, and a run that has ended."""

import asyncio
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from tests.rest.conftest import Driver, served
from tests.rest.test_rest_page import browser, running

from holdfast.cli.page_of_run import OfFolder, app_of
from holdfast.driver.core import events
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.traces.bursts.record import Burst, Rail, encode

TAKE = "/v1alpha1/nodes/node-1/burst"
MOVED = {"received": [0, 9_000_000, 0], "sent": [0, 8_000_000, 0]}


class Answers:
    """What nodes say when they are asked for a burst; `held` until it is set."""

    def __init__(self, driver: Driver) -> None:
        self.said: bytes | Exception = encode(
            Burst(
                node="node-1",
                seconds=10,
                missed=0,
                cpu_s=0.1,
                degraded="",
                at_us=[0, 1_000, 2_000, 3_000],
                rails=[Rail(name="eth0", **MOVED, errors=[0, 0, 0], drops=[0, 0, 0])],
            )
        )
        self.held = asyncio.Event()
        self.held.set()
        self.asked: list[float] = []
        nodes: Any = driver.nodes
        nodes.burst = self.burst

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        self.asked.append(seconds)
        await self.held.wait()
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.fixture
def answers(driver: Driver) -> Answers:
    return Answers(driver)


async def test_a_burst_is_taken_listed_shown_and_drawn(driver: Driver, answers: Answers) -> None:
    await running(driver)
    taken = (await driver.http.post(TAKE, json={"seconds": 2})).json()
    assert (taken["job"], taken["burst"]["id"], answers.asked) == ("speech", 1, [2.0])
    listed = (await driver.http.get("/v1alpha1/jobs/speech/bursts")).json()
    assert listed == {"job": "speech", "items": [taken["burst"]]}
    one = (await driver.http.get("/v1alpha1/jobs/speech/bursts/1")).json()
    assert one["rails"][0]["received_bytes"] == MOVED["received"]
    assert one["rails"][0]["peak_bytes_per_s"] == 17e9
    assert "eth0: 5.67 GB/s on average, at most 17 GB/s" in one["says"]
    drawn = await driver.http.get("/v1alpha1/jobs/speech/bursts/1.svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert one["says"][:20] in "".join(ElementTree.fromstring(drawn.text).itertext())


@pytest.mark.parametrize(
    ("said", "status", "fix"),
    [
        (TemporaryError("node node-1: its daemon is not connected"), 503, "Ask again."),
        (PermanentError("node node-1: its daemon is old"), 409, "Bring Holdfast up to date there."),
        (b"noise", 503, "Ask again."),
    ],
)
async def test_where_there_is_none_it_is_said_why(
    driver: Driver, answers: Answers, said: bytes | Exception, status: int, fix: str
) -> None:
    await running(driver)
    answers.said = said
    refused = await driver.http.post(TAKE, json={})
    assert (refused.status_code, refused.json()["fix"]) == (status, fix)
    assert refused.json()["detail"].startswith("there is no burst: node node-1: ")
    none = await driver.http.get("/v1alpha1/jobs/speech/bursts/1")
    assert (none.status_code, none.json()["detail"]) == (404, "speech has no burst 1.")


async def test_one_at_a_time_and_of_nodes_of_jobs_alone(driver: Driver, answers: Answers) -> None:
    await driver.happened(events.NodeAppeared(node="node-2"))
    await running(driver)
    idle = await driver.http.post("/v1alpha1/nodes/node-2/burst", json={})
    assert (idle.status_code, "runs no job" in idle.text) == (409, True)
    for wrong in (0.5, 11, "2", True):
        assert (await driver.http.post(TAKE, json={"seconds": wrong})).status_code == 422
    assert answers.asked == []
    answers.held.clear()
    first = asyncio.create_task(driver.http.post(TAKE, json={}))
    while not answers.asked:
        await asyncio.sleep(0)
    assert (await driver.http.post(TAKE, json={})).status_code == 429
    answers.held.set()
    assert (await first).status_code == 200


async def hangs(driver: Driver) -> int:
    """An incident of the job; its number."""
    found = Finding(
        kind=Kind.HANG, weight=Weight.REPORT, node="node-1", job="speech", summary="rank 1 hangs"
    )
    await driver.happened(events.Found(finding=found))
    return max(driver.control.state.incidents)


async def test_an_incident_leads_to_the_pictures_that_were_taken_for_it(
    driver: Driver, answers: Answers, tmp_path: Path
) -> None:
    await running(driver)
    number = await hangs(driver)
    take, at = driver.control.bursts.take, f"/jobs/speech/incidents/{number}"
    async with browser(driver) as page:
        assert "each millisecond" not in (await page.get(at)).text
        await take("speech", "node-1", 10.0, "a person asked", incident=None)
        await take("speech", "node-1", 10.0, "rank 1 hangs", incident=number)
        await driver.happened(events.NodeAppeared(node="node-2"))  # the page is made anew
        html = (await page.get(at)).text
        assert '<a href="/jobs/speech/bursts/2.svg">node-1</a>: from ' in html
        assert "bursts/1.svg" not in html
        await is_drawn(page)
    async with httpx.AsyncClient(base_url=driver.http.base_url, trust_env=False) as stranger:
        assert (await stranger.get("/jobs/speech/bursts/2.svg")).status_code == 401


async def is_drawn(page: httpx.AsyncClient) -> None:
    light, dark = [await page.get(f"/jobs/speech/bursts/2.svg{way}") for way in ("", "?dark=1")]
    assert light.headers["content-type"].startswith("image/svg+xml")
    assert "rank 1 hangs" in "".join(ElementTree.fromstring(light.text).itertext())
    assert light.text != dark.text
    for wrong in ("9", "x", "02", "-1"):
        assert (await page.get(f"/jobs/speech/bursts/{wrong}.svg")).status_code == 404


async def test_so_does_the_page_of_a_run_that_is_over(
    driver: Driver, answers: Answers, tmp_path: Path
) -> None:
    await running(driver)
    number = await hangs(driver)
    for _ in range(2):
        await driver.control.bursts.take("speech", "node-1", 1.0, "rank 1 hangs", incident=number)
    app = app_of(OfFolder(tmp_path))
    code = app.state.sessions.code("whoever")
    async with served(app) as url, httpx.AsyncClient(base_url=url, trust_env=False) as page:
        await page.get("/", params={"code": code})
        assert "bursts/2.svg" in (await page.get(f"/jobs/speech/incidents/{number}")).text
        await is_drawn(page)

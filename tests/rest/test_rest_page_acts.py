"""What a page asks of a driver beside evicting: stacks of ranks, and facts that a person tells."""

import re
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_page import browser
from tests.rest.test_rest_stacks import Executors, executors

from holdfast.driver.core import events

__all__ = ["executors"]

STACKS = "/jobs/speech/stacks"


async def sent(page: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """The form of the page at `path`, as a browser sends it from there."""
    asked = await page.get(path, params=fields)
    token = re.search(r'name="token" value="(\w+)"', asked.text)
    assert token is not None, asked.text
    origin = str(page.base_url).rstrip("/")
    return await page.post(path, data={**fields, "token": token[1]}, headers={"Origin": origin})


async def test_stacks_are_taken_by_a_form_and_equal_ones_are_shown_once(
    driver: Driver, executors: Executors
) -> None:
    async with browser(driver) as page:
        assert f'action="{STACKS}"' in (await page.get("/jobs/speech")).text
        asked = await page.get(STACKS)
        assert 'value="0-1"' in asked.text
        told = (await sent(page, STACKS, ranks="0-1")).text
        assert told.count("<pre") == 1
        assert "2 ranks: 0-1" in told
        assert "All show the same stack: 2 ranks." in told
        executors.told = {0: "<b>x</b>"}
        one = (await sent(page, STACKS, ranks="0 1")).text
        assert "&lt;b&gt;x" in one
        assert "No stack of rank 1: node-1 did not tell of it." in one


@pytest.mark.parametrize("ranks", ["", "x", "3-1", "0-5000", "-1"])
async def test_what_are_no_ranks_is_refused_before_a_node_is_asked(
    driver: Driver, executors: Executors, ranks: str
) -> None:
    async with browser(driver) as page:
        token = re.search(r'name="token" value="(\w+)"', (await page.get(STACKS)).text)
        assert token is not None
        headers = {"Origin": str(page.base_url).rstrip("/")}
        form = {"ranks": ranks, "token": token[1]}
        told = await page.post(STACKS, data=form, headers=headers)
        assert told.status_code == 422
        assert "Write numbers and spans, such as 0-3, 7" in told.text
    assert executors.asked == []


async def test_stacks_are_for_our_own_page_alone(driver: Driver, executors: Executors) -> None:
    async with browser(driver) as page:
        origin = str(page.base_url).rstrip("/")
        rest, body = "/v1alpha1/jobs/speech/stacks", {"ranks": [0]}
        for headers in ({}, {"X-Holdfast": "1"}, {"Origin": origin}):
            assert (await page.post(rest, json=body, headers=headers)).status_code == 403
        assert (await page.post(STACKS, data={"ranks": "0"})).status_code == 403
        assert executors.asked == []
        own = {"X-Holdfast": "1", "Origin": origin}
        assert (await page.post(rest, json=body, headers=own)).status_code == 200


CLEARS = {"words": "cable <replaced>", "says": "clears"}
MEANS: list[tuple[dict[str, Any], str]] = [
    (CLEARS, "What is held against node-1 counts no more."),
    (
        {**CLEARS, "says": "accuses"},
        "You are one accuser of node-1; three put it into quarantine once a fault stands out",
    ),
    ({**CLEARS, "says": "context"}, "It is for people alone"),
    ({**CLEARS, "to": "node-2"}, "What is held against this link counts no more."),
    ({**CLEARS, "to": "node-2", "says": "accuses"}, "are kept apart for a day."),
]


@pytest.mark.parametrize(("given", "means"), MEANS)
async def test_what_a_fact_means_is_said_before_it_is_told(
    driver: Driver, given: dict[str, str], means: str
) -> None:
    for name in ("node-1", "node-2"):
        await driver.happened(events.NodeAppeared(node=name))
    async with browser(driver) as page:
        before = driver.control.sequence
        asked = await page.get("/nodes/node-1/facts", params=given)
        assert means in asked.text
        assert "cable &lt;replaced&gt;" in asked.text
        assert driver.control.sequence == before
        done = await sent(page, "/nodes/node-1/facts", **given)
        assert done.headers["location"].startswith("/nodes/node-1?done=")
        assert "cable &lt;replaced&gt;" in (await page.get(done.headers["location"])).text
        nothing = await page.get("/nodes/node-1/facts", params={"words": " ", "says": "clears"})
        assert nothing.status_code == 422
        assert (await page.get("/nodes/node-9/facts", params=given)).status_code == 404


async def test_a_version_of_a_job_is_told_of_from_its_page(
    driver: Driver, executors: Executors
) -> None:
    given = {"words": "the loader is tested", "says": "clears", "version": "1"}
    async with browser(driver) as page:
        assert 'id="fact"' in (await page.get("/jobs/speech")).text
        asked = await page.get("/jobs/speech/facts", params=given)
        assert "It closes version 1 as a cause" in asked.text
        assert (await sent(page, "/jobs/speech/facts", **given)).status_code == 303
        assert "the loader is tested" in (await page.get("/jobs/speech")).text
        wrong = await page.get("/jobs/speech/facts", params={**given, "version": "two"})
        assert (wrong.status_code, "version: " in wrong.text) == (422, True)


async def test_a_job_without_traces_has_none_for_perfetto(
    driver: Driver, executors: Executors
) -> None:
    async with browser(driver) as page:
        none = await page.get("/jobs/speech/trace")
        assert none.status_code == 404
        assert "no spans of the last minute" in none.text.lower()
        assert (await page.get("/jobs/speech/nothing.svg")).status_code == 404
        assert (await page.get("/jobs/nobody/trace")).status_code == 404


class Receivers:
    """Two receivers, of which one takes nothing."""

    names = ("on-call", "chat")

    def __init__(self) -> None:
        self.tried: list[str] = []

    def health(self) -> list[SimpleNamespace]:
        known = {"format": "json", "signed": True, "sent": 3, "given_up": 0, "behind": 0}
        return [SimpleNamespace(name=name, trouble="", **known) for name in self.names]

    async def test(self, name: str) -> str:
        self.tried.append(name)
        return "" if name == "on-call" else "it answered 500"


async def test_a_webhook_is_sent_an_example_by_a_button_of_our_own_page(driver: Driver) -> None:
    control: Any = driver.control
    async with browser(driver) as page:
        assert "Nobody: the driver was started without" in (await page.get("/webhooks")).text
        assert 'href="/webhooks"' in (await page.get("/")).text
        control.webhooks = receivers = Receivers()
        html = (await page.get("/webhooks?taken=somebody")).text
        assert "Send on-call an example" in html
        assert "somebody" not in html
        token = re.search(r'name="token" value="(\w+)"', html)
        assert token is not None
        ours, form = {"Origin": str(page.base_url).rstrip("/")}, {"token": token[1]}
        for name in ("on-call", "chat"):
            stolen = await page.post(f"/webhooks/{name}/test", data={"token": "x"}, headers=ours)
            other = {"Origin": "http://evil.example"}
            foreign = await page.post(f"/webhooks/{name}/test", data=form, headers=other)
            assert (stolen.status_code, foreign.status_code) == (403, 403)
        assert receivers.tried == []
        taken = await page.post("/webhooks/on-call/test", data=form, headers=ours)
        assert taken.headers["location"] == "/webhooks?taken=on-call"
        assert "on-call took an example." in (await page.get(taken.headers["location"])).text
        away = await page.post("/webhooks/chat/test", data=form, headers=ours)
        assert away.status_code == 503
        assert "it answered 500" in away.text
        assert (await page.post("/webhooks/x/test", data=form, headers=ours)).status_code == 404
    assert receivers.tried == ["on-call", "chat"]

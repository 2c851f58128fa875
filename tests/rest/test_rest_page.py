"""The page of a driver: who may look, who may change something, and what is quoted on it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from html import unescape
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE
from waiting import DEADLINE_S

from holdfast.driver.adapters.page import crowd, facts, reading
from holdfast.driver.adapters.page.changing import CHANGES, FORM
from holdfast.driver.core import events
from holdfast.driver.people.access import NotAllowed, Right, Stranger
from holdfast.page import pages
from holdfast.page.logs import pane
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import Task

BAD = '<img src=x onerror=alert("x")>'


@contextlib.asynccontextmanager
async def browser(driver: Driver) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who opened the address with a code: a cookie, and no token."""
    code = (await driver.http.post("/v1alpha1/codes")).json()["code"]
    async with httpx.AsyncClient(base_url=driver.http.base_url, trust_env=False) as made:
        answer = await made.get("/", params={"code": code})
        assert answer.status_code == 200, answer.text
        yield made


async def posted(page: httpx.AsyncClient, path: str, **changes: Any) -> httpx.Response:
    """A form as a browser sends it, but for `changes`: `origin`, `kind`, or any field."""
    at = "/nodes/node-1/evict" if path.startswith("/nodes") else "/brake"
    token = re.search(r'name="token" value="(\w+)"', (await page.get(at)).text)
    assert token is not None
    origin = changes.pop("origin", str(page.base_url).rstrip("/"))
    kind = changes.pop("kind", FORM)
    fields = {"token": token[1], "reason": "loud fan"} | changes
    headers = {"Origin": origin} if origin else {}
    return await page.post(path, data=fields, headers={**headers, "Content-Type": kind})


async def running(driver: Driver, name: str = "speech") -> None:
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=2)
    await driver.happened(
        *NODE,
        events.JobSubmitted(job=name, plan=plan),
        events.NodeAllocated(job=name, node="node-1"),
    )


async def test_a_code_is_good_once_and_becomes_a_cookie_that_scripts_do_not_see(
    driver: Driver,
) -> None:
    code = (await driver.http.post("/v1alpha1/codes")).json()
    async with httpx.AsyncClient(base_url=driver.http.base_url, trust_env=False) as page:
        first = await page.get(code["path"])
        cookie = first.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert code["code"] not in first.text
        assert (await page.get("/")).status_code == 200
        page.cookies.clear()
        second = await page.get(code["path"])
    assert second.status_code == 401
    assert "holdfast page" in second.text
    assert "set-cookie" not in second.headers


@pytest.mark.parametrize(
    "path", ["/", "/jobs/speech", "/nodes", "/nodes/node-1", "/brake", "/goodput"]
)
async def test_without_a_session_there_is_no_fact(driver: Driver, path: str) -> None:
    await running(driver)
    async with httpx.AsyncClient(base_url=driver.http.base_url, trust_env=False) as page:
        answer = await page.get(path)
    assert answer.status_code == 401
    assert "speech</a>" not in answer.text
    assert "node-1</a>" not in answer.text


async def test_the_address_of_another_site_in_the_path_is_not_gone_to(driver: Driver) -> None:
    code = (await driver.http.post("/v1alpha1/codes")).json()["code"]
    driver.http.headers.pop("authorization")
    answer = await driver.http.get(f"{driver.http.base_url}//evil.example/?code={code}")
    assert answer.status_code == 404 or "url=/evil.example" in answer.text


async def test_a_session_reads_the_interface_and_changes_nothing_there(driver: Driver) -> None:
    await running(driver)
    evict, body = "/v1alpha1/nodes/node-1/evict", {"reason": "loud fan"}
    async with browser(driver) as page:
        assert (await page.get("/v1alpha1/jobs")).json()["items"]
        origin = str(page.base_url).rstrip("/")
        other = {"Sec-Fetch-Site": "same-site"}
        assert (await page.get("/v1alpha1/jobs", headers=other)).status_code == 403
        for headers in ({}, {"X-Holdfast": "1"}, {"Origin": origin}):
            assert (await page.post(evict, json=body, headers=headers)).status_code == 403
        elsewhere = {"X-Holdfast": "1", "Origin": "http://127.0.0.1:1"}
        assert (await page.post(evict, json=body, headers=elsewhere)).status_code == 403
        assert not driver.control.state.nodes["node-1"].quarantined
        own = {"X-Holdfast": "1", "Origin": origin}
        assert (await page.post(evict, json=body, headers=own)).status_code == 202
        renewed = await page.post("/v1alpha1/codes", headers=own)
        assert renewed.status_code == 403, "else a session would go on for ever"


async def test_a_form_evicts_and_says_so_where_it_is_of_this_session_and_page(
    driver: Driver,
) -> None:
    await running(driver)
    evict = "/nodes/node-1/evict"
    async with browser(driver) as page:
        for change in (
            {"token": "0" * 64},
            {"token": ""},
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": ""},
        ):
            assert (await posted(page, evict, **change)).status_code == 403, change
        assert (await posted(page, evict, kind="text/plain")).status_code == 415
        assert (await posted(page, evict, reason="x" * 501)).status_code == 422
        assert (await posted(page, evict, reason="x" * 20_000)).status_code == 413
        assert not driver.control.state.nodes["node-1"].quarantined
        told = await page.get(evict)
        assert "speech stops on all of its 2 ranks" in told.text
        assert "No other node is free: the job waits until one is." in told.text
        done = await posted(page, evict)
        assert (done.status_code, done.headers["location"][:19]) == (303, "/nodes/node-1?done=")
        after = await page.get(done.headers["location"])
    assert driver.control.state.nodes["node-1"].quarantined
    assert re.search(r'class="banner good" role="status">[^<]*node-1', after.text)
    assert "loud fan" in after.text


async def test_a_node_is_used_again_and_told_of_and_the_brake_put_on(driver: Driver) -> None:
    await driver.happened(*NODE)
    async with browser(driver) as page:
        assert (await posted(page, "/nodes/node-1/evict")).status_code == 303
        words = {"words": "cable replaced", "says": "clears"}
        assert (await posted(page, "/nodes/node-1/restore", reason="new cable")).status_code == 303
        assert not driver.control.state.nodes["node-1"].quarantined
        told = await posted(page, "/nodes/node-1/facts", **words)
        assert "cable replaced" in (await page.get(told.headers["location"])).text
        wrong = await posted(page, "/nodes/node-1/facts", words="x", says="maybe")
        assert (wrong.status_code, "says: " in wrong.text) == (422, True)
        assert (await posted(page, "/brake/apply", reason="we rewire")).status_code == 303
        assert driver.control.state.brake.on
        assert "we rewire" in (await page.get("/")).text
        twice = await posted(page, "/brake/apply", reason="again")
        assert (twice.status_code, "it is on already" in twice.text) == (409, True)
        assert (await posted(page, "/brake/release", reason="done")).status_code == 303


async def test_a_job_is_stopped_from_its_page(driver: Driver) -> None:
    await running(driver)
    async with browser(driver) as page:
        assert "SIGKILL" in (await page.get("/jobs/speech/stop")).text
        assert (await posted(page, "/jobs/speech/stop")).status_code == 303
    assert driver.control.state.jobs["speech"].wanted.value == "stop"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("driver:7480", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:80", 421),
        ("evil.example:127", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
async def test_another_name_is_not_ours(driver: Driver, host: str, status: int) -> None:
    with_token = await driver.http.get("/v1alpha1/jobs", headers={"Host": host or "x.example"})
    assert with_token.status_code == 200
    del driver.http.headers["authorization"]
    answer = await driver.http.get("/healthz", headers={"Host": host})
    assert answer.status_code in ({421, 400} if host == "" else {status})


@pytest.mark.parametrize("host", ["localhost:99999", "localhost:x", "[::1]:80:80", "::1#", "a@b"])
async def test_what_is_no_host_at_all_is_refused(driver: Driver, host: str) -> None:
    for path in ("/", "/v1alpha1/jobs"):
        told = await driver.http.get(path, headers={"Host": host, "Authorization": ""})
        assert told.status_code == 421
    assert (await driver.http.get("/", headers={"Host": host})).status_code == 401


async def test_each_answer_has_what_keeps_a_browser_in(driver: Driver) -> None:
    async with browser(driver) as page:
        for path in ("/", "/nodes", "/brake", "/static/page.css", "/v1alpha1/jobs", "/nowhere"):
            headers = (await page.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
            policy = "same-origin" if path == "/brake" else "no-referrer"
            assert headers["referrer-policy"] == policy
        assert "/docs" in str((await page.get("/docs")).url)


async def test_nothing_that_is_quoted_becomes_a_part_of_the_page(driver: Driver) -> None:
    node = f"node-{BAD}"
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
    fault = Finding(
        kind=Kind.LOG_KEYWORD,
        weight=Weight.REPORT,
        job=BAD,
        rank=0,
        node=node,
        summary=f"it says {BAD}",
        evidence=(Evidence(source=f"rank {BAD}", text=f"line {BAD}"),),
    )
    await driver.happened(
        events.NodeAppeared(node=node, rack=BAD),
        events.ExecutorConnected(node=node, incarnation="a", address=BAD),
        events.JobSubmitted(job=BAD, plan=plan),
        events.NodeAllocated(job=BAD, node=node),
        events.Found(finding=fault),
        events.BrakeApplyRequested(reason=BAD, by=BAD),
    )
    driver.nodes.logs[BAD, 1, 0, "stderr"] = f"RuntimeError: {BAD}\n".encode()
    (incident,) = driver.control.state.incidents
    async with browser(driver) as page:
        listed = (await page.get("/")).text
        link = re.search(r'href="(/nodes/node-[^"]+)"', listed)
        of_job = re.search(r'href="(/jobs/[^"]+)"', listed)
        assert link is not None
        assert of_job is not None
        pages = [listed, (await page.get("/nodes")).text, (await page.get("/brake")).text]
        assert unescape(listed).count(BAD) >= 3
        more = (f"{of_job[1]}/story", f"{of_job[1]}/incidents/{incident}")
        pages += [(await page.get(path)).text for path in (link[1], of_job[1], *more)]
    for html in pages:
        assert "<img src=x" not in html
        assert "alert(&#34;x" in html


async def test_a_log_shows_the_first_error_and_a_rank_that_is_not_there_says_so(
    driver: Driver,
) -> None:
    await running(driver)
    text = "begin\nTraceback (most recent call last):\nValueError: no\nRuntimeError: later\n"
    driver.nodes.logs["speech", 1, 1, "stderr"] = text.encode()
    async with browser(driver) as page:
        html = (await page.get("/jobs/speech?rank=1&stream=stderr")).text
        assert "<mark>Traceback (most recent call last):</mark>" in html
        assert html.count("<mark>") == 1
        assert "there is no rank 7" in (await page.get("/jobs/speech?rank=7")).text
        assert (await page.get("/jobs/speech?rank=-1")).status_code == 422
        assert (await page.get("/jobs/speech?attempt=x")).status_code == 422
        assert "it has no logs" in (await page.get("/jobs/speech?attempt=5")).text
        assert (await page.get("/jobs/speech?stream=both")).status_code == 422
        assert (await page.get("/jobs/speech/incidents/99")).status_code == 404
        assert (await page.get("/nodes/node-9")).status_code == 404


async def test_a_node_that_does_not_send_a_log_keeps_nobody_from_the_rest_of_the_page(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(driver)

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(driver.nodes, "log", never)
    monkeypatch.setattr(facts, "LOG_WITHIN_S", 0.01)
    async with browser(driver) as page:
        html = (await page.get("/jobs/speech")).text
    assert "the node of rank 0 has not sent it within 0.01 s." in html
    assert "What can be done?" in html


async def test_a_crowd_is_shown_one_page_and_the_next_one_what_is_new(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(driver)
    made: list[int] = []

    def counted(frame: pages.Frame, *facts: Any) -> str:
        made.append(frame.sequence)
        return pages.job(frame, *facts)

    monkeypatch.setattr(reading, "pages", SimpleNamespace(job=counted, More=pages.More))
    monkeypatch.setattr(crowd, "GOOD_FOR_S", DEADLINE_S)  # however busy this machine is
    async with browser(driver) as page:
        asked = (page.get("/jobs/speech") for _ in range(20))
        told = {answer.text for answer in await asyncio.gather(*asked)}
        assert (len(told), len(made)) == (1, 1)
        await driver.happened(events.SuspendRequested(job="speech", by="a person"))
        assert (await page.get("/jobs/speech")).text not in told
        assert (await page.get("/jobs/nobody")).status_code == 404
        assert (await page.get("/jobs/nobody")).status_code == 404
    assert made == sorted(set(made))


async def test_the_error_that_ended_an_attempt_is_shown_where_the_next_one_has_none() -> None:
    """Its rank writes to another log by then."""
    found = {"name": "speech", "exit": None}
    incidents = [{"faults": 1, "rank": 1}]
    asked = SimpleNamespace(
        request=SimpleNamespace(query_params={}), token="", facts=SimpleNamespace(log=scripted)
    )
    log = await reading._log(asked, found, incidents)  # type: ignore[arg-type]
    assert (log.rank, log.attempt) == (1, 2)
    log = await reading._log(asked, found, [])  # type: ignore[arg-type]
    assert (log.rank, log.attempt) == (0, 3)
    asked.request.query_params["attempt"] = "3"
    log = await reading._log(asked, found, incidents)  # type: ignore[arg-type]
    assert (log.rank, log.attempt) == (1, 3)


async def scripted(
    _token: str, _job: str, rank: int, stream: str, attempt: int | None
) -> pages.Log:
    """Of a job whose second attempt ended by an error."""
    data = b"ValueError: no\n" if attempt == 2 else b"all is well\n"
    return pages.Log(rank, stream, attempt or 3, pane(data, whole=True))


class Ben:
    """Of people: Ben, who may look at jobs and nodes, and no more."""

    objects = None
    may = frozenset({Right.SEE_JOBS, Right.SEE_JOB, Right.SEE_NODES})

    async def check(self, token: str, right: Right, job: str = "") -> None:
        if token != "ben's":
            raise Stranger("nobody is known by this token.")
        if right not in self.may:
            raise NotAllowed(f"ben may not {right}.")


async def test_a_session_has_the_rights_of_the_token_that_its_code_was_made_with(
    driver: Driver,
) -> None:
    await running(driver)
    driver.control.people = people = Ben()
    assert (await driver.http.post("/v1alpha1/codes")).status_code == 401
    driver.http.headers["authorization"] = "Bearer ben's"
    async with browser(driver) as page:
        assert "ben may not read the job&#39;s logs." in (await page.get("/jobs/speech")).text
        assert (await page.get("/nodes/node-1/evict")).status_code == 403
        assert (await page.get("/jobs/speech/stop")).status_code == 403
        token = re.search(r'name="token" value="(\w+)"', (await page.get("/brake")).text)
        assert token is not None
        form = {"token": token[1], "reason": "loud", "words": "x"}
        own = {"Origin": str(page.base_url).rstrip("/")}
        for path in CHANGES:
            at = path.format(node="node-1", job="speech", webhook="on-call")
            refused = await page.post(at, data=form, headers=own)
            assert (refused.status_code, "ben may not" in refused.text.lower()) == (
                403,
                True,
            )
        assert "node-1" in (await page.get("/")).text
        people.may -= {Right.SEE_NODES}
        await driver.happened(events.SuspendRequested(job="speech", by="a person"))
        listed = (await page.get("/")).text
        assert ("speech" in listed, "node-1</a>" in listed, "Fleet" in listed) == (
            True,
            False,
            False,
        )
    assert not driver.control.state.nodes["node-1"].quarantined
    assert not driver.control.state.brake.on


async def test_the_time_of_all_jobs_is_told_of_a_month_or_of_what_is_asked_for(
    driver: Driver,
) -> None:
    await running(driver)
    async with browser(driver) as page:
        assert "1 job in 30 days: " in (await page.get("/goodput")).text
        assert "1 job in 7 days: " in (await page.get("/goodput?days=7")).text
        for wrong in ("0", "93", "-1", "x", "1.5"):
            assert (await page.get("/goodput", params={"days": wrong})).status_code == 422

"""What ranks did when, as the driver answers."""

from pathlib import Path
from typing import Any

import httpx
import made_spans
import pytest
from tests.rest.conftest import Driver, served
from tests.rest.test_rest_page import browser, running

from holdfast.cli.errors import Stopped
from holdfast.cli.offline import Recorded
from holdfast.cli.page_of_run import OfFolder, app_of
from holdfast.driver.adapters.rest.app import PREFIX
from holdfast.driver.core import events
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.traces.model import Span

URL = f"{PREFIX}/jobs/speech/spans"


async def asked(driver: Driver, **query: Any) -> dict[str, Any]:
    answer = await driver.http.get(URL, params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_spans_of_a_time_and_of_some_ranks_are_told(driver: Driver) -> None:
    await driver.submit()
    made_spans.made(driver.control.settings.state)
    told = await asked(driver, from_s=1.5, to_s=1.65, ranks="1,3")
    assert (told["job"], told["from_s"], told["to_s"]) == ("speech", 1.5, 1.65)
    assert {span["rank"] for span in told["spans"]} == {1, 3}
    assert told["clock_error_s"] == {"node-1": 0.0002, "node-2": 0.0002}
    assert (told["dropped"], told["more"], told["troubles"]) == (6, False, [])
    span = next(span for span in told["spans"] if span["kind"] == "collective")
    assert span["name"] == "all_reduce"
    assert span["group"] == made_spans.GROUP
    assert span["start_s"] + span["took_s"] >= 1.5


async def test_what_was_left_out_is_said(driver: Driver) -> None:
    await driver.submit()
    made_spans.made(driver.control.settings.state)
    told = await asked(driver, from_s=0, to_s=100, limit=5)
    assert (len(told["spans"]), told["more"]) == (5, True)


async def test_without_traces_there_are_none(driver: Driver) -> None:
    await driver.submit()
    assert (await asked(driver))["spans"] == []


async def test_ranks_that_are_none_are_refused(driver: Driver) -> None:
    await driver.submit()
    for wrong in ("x", "1,,2", "1,-2", "1," * 5_000 + "1"):
        answer = await driver.http.get(URL, params={"ranks": wrong})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "ranks"


async def test_times_that_are_none_are_refused(driver: Driver) -> None:
    await driver.submit()
    for wrong in ("-1", "nan", "inf"):
        answer = await driver.http.get(URL, params={"from_s": wrong})
        assert answer.status_code == 422


async def found(driver: Driver) -> int:
    """An incident of the job, with what rank 1 did before and long after; its number."""
    finding = Finding(
        kind=Kind.HANG, weight=Weight.REPORT, node="node-1", job="speech", summary="rank 1 hangs"
    )
    await driver.happened(events.Found(finding=finding))
    fields = {"rank": 1, "attempt": 1, "node": "node-1", "kind": "collective"}
    spans = [
        Span(name="all_reduce", start_s=0.0, took_s=900.0, ended=False, **fields),
        Span(name="later", start_s=900.0, took_s=1.0, **fields),
    ]
    submitted_s = driver.control.state.jobs["speech"].submitted_s
    state = driver.control.settings.state
    made_spans.write(state, made_spans.block_of(spans, submitted_s=submitted_s))
    return max(driver.control.state.incidents)


async def test_spans_are_told_until_an_incident_was_found(driver: Driver, tmp_path: Path) -> None:
    await running(driver)
    number = await found(driver)
    told = await asked(driver, incident=number)
    assert [span["name"] for span in told["spans"]] == ["all_reduce"]
    incident = driver.control.state.incidents[number]
    since_s = driver.control.state.jobs["speech"].submitted_s
    assert told["to_s"] == pytest.approx(incident.found_s - since_s)
    assert [span["name"] for span in (await asked(driver, incident=number, to_s=950))["spans"]] == [
        "all_reduce",
        "later",
    ]
    none = await driver.http.get(URL, params={"incident": number + 1})
    assert none.status_code == 404
    assert str(number) in none.json()["fix"]
    recorded = Recorded(tmp_path)
    (span,) = recorded.spans("speech", last_s=30, incident=number)["spans"]
    assert span.items() <= told["spans"][0].items()
    with pytest.raises(Stopped, match="no incident"):
        recorded.spans("speech", last_s=30, incident=number + 1)


async def test_of_an_incident_the_last_spans_are_told_where_there_are_too_many(
    driver: Driver,
) -> None:
    """What it was is seen when it was found, and not long before."""
    await running(driver)
    number = await found(driver)
    submitted_s = driver.control.state.jobs["speech"].submitted_s
    fields = {"attempt": 1, "node": "node-1", "kind": "step", "took_s": 900.0}
    spans = [Span(rank=rank, start_s=rank * 1e-6, **fields) for rank in range(2, 8)]
    block = made_spans.block_of(spans, submitted_s=submitted_s)
    made_spans.write(driver.control.settings.state, block)
    told = await asked(driver, incident=number, limit=3)
    assert [span["rank"] for span in told["spans"]] == [5, 6, 7]
    assert (told["from_s"], told["more"]) == (told["spans"][0]["start_s"], False)


async def test_the_page_of_an_incident_shows_what_ranks_did_until_it_was_found(
    driver: Driver, tmp_path: Path
) -> None:
    await running(driver)
    at = f"/jobs/speech/incidents/{await found(driver)}"
    async with browser(driver) as page:
        await draws(page, at)
    async with httpx.AsyncClient(base_url=driver.http.base_url, trust_env=False) as stranger:
        for path in (f"{at}/timeline.svg", f"{at}/heatmap.svg", f"{at}/trace", f"{at}/report"):
            assert (await stranger.get(path)).status_code == 401
    app = app_of(OfFolder(tmp_path))
    code = app.state.sessions.code("whoever")
    async with served(app) as url, httpx.AsyncClient(base_url=url, trust_env=False) as page:
        await page.get("/", params={"code": code})
        await draws(page, at)


async def draws(page: httpx.AsyncClient, at: str) -> None:
    html = (await page.get(at)).text
    assert f'src="{at}/timeline.svg"' in html
    assert f'href="{at}/trace"' in html
    light, dark = [await page.get(f"{at}/timeline.svg{way}") for way in ("", "?dark=1")]
    assert light.headers["content-type"].startswith("image/svg+xml")
    assert "1 rank, 0.0 s to " in light.text
    assert light.text != dark.text
    assert f'srcset="{at}/timeline-narrow.svg?dark=1"' in html
    narrow = (await page.get(f"{at}/timeline-narrow.svg")).text
    assert ('width="360"' in narrow, 'width="1200"' in light.text) == (True, True)
    assert f'src="{at}/view3d.svg"' in html
    assert "<svg" in (await page.get(f"{at}/view3d.svg")).text
    assert f'src="{at}/heatmap.svg"' in html
    heat = (await page.get(f"{at}/heatmap.svg")).text
    assert "heat map of speech" in heat
    assert "1 ranks by rack" in heat
    assert (await page.get(f"{at}/other.svg")).status_code == 404
    assert f'href="{at}/report"' in html
    report = await page.get(f"{at}/report")
    assert report.headers["content-type"] == "text/html; charset=utf-8"
    assert report.headers["content-disposition"].endswith("speech-1.html")
    assert "<h1>Incident 1: rank 1 hangs" in report.text
    assert "<script" not in report.text
    trace = await page.get(f"{at}/trace")
    assert (b"all_reduce" in trace.content, b"later" in trace.content) == (True, False)
    assert trace.headers["content-disposition"].endswith("speech-1.pftrace")
    for end in ("/timeline.svg", "/trace", "/report"):
        assert (await page.get(f"/jobs/speech/incidents/9{end}")).status_code == 404

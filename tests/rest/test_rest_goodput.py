"""Where the time went, as REST tells it, and what Prometheus is told of it."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE
from waiting import DEADLINE_S

from holdfast.driver.adapters.rest.standby import Waiting
from holdfast.driver.ports import TemporaryError

DEPLOY = Path(__file__).parents[2] / "deploy"
JOB, FLEET = "/v1alpha1/jobs/speech/goodput", "/v1alpha1/goodput"


async def begun(driver: Driver) -> None:
    await driver.submit()
    await driver.happened(*NODE)


async def scraped(driver: Driver) -> str:
    return (await driver.http.get("/metrics")).text


async def test_the_buckets_of_a_job_add_up_to_its_time_so_far(driver: Driver) -> None:
    await begun(driver)
    told = (await driver.http.get(JOB)).json()
    assert told["job"] == "speech"
    assert sum(told["buckets_s"].values()) == pytest.approx(told["wall_s"], abs=1e-6)
    assert {"wait"} <= told["buckets_s"].keys() <= {"queued", "wait"}
    assert (told["ettr"], told["incidents"], told["not_known"]) == (0.0, [], [])
    later = (await driver.http.get(JOB)).json()
    assert later["wall_s"] > told["wall_s"]


async def test_the_time_of_a_job_that_is_over_stands_still(driver: Driver) -> None:
    await begun(driver)
    await driver.http.post("/v1alpha1/jobs/speech/stop")
    told = (await driver.http.get(JOB)).json()
    assert (await driver.http.get(JOB)).json() == told


async def test_a_fleet_has_a_job_that_was_deleted_and_its_successor(driver: Driver) -> None:
    await begun(driver)
    await driver.http.delete("/v1alpha1/jobs/speech")
    assert (await driver.http.get(JOB)).status_code == 404
    await driver.submit()
    told = (await driver.http.get(FLEET)).json()
    assert told["jobs"] == 2
    assert sum(told["buckets_s"].values()) == pytest.approx(told["wall_s"], abs=1e-6)
    assert [each["name"] for each in told["by_kind"]] == ["first start"]


async def test_a_window_that_is_none_is_refused_with_the_bound(driver: Driver) -> None:
    answer = await driver.http.get(FLEET, params={"since_s": 0})
    (mistake,) = answer.json()["errors"]
    assert (answer.status_code, mistake["field"]) == (422, "since_s")


# ---------------------------------------------------------------- metrics


async def test_prometheus_is_told_of_a_job_while_it_is_not_over(driver: Driver) -> None:
    await begun(driver)
    text = await scraped(driver)
    assert 'holdfast_job_badput_seconds{bucket="wait",job="speech"}' in text
    assert 'holdfast_job_goodput_seconds{job="speech"} 0.0' in text
    assert 'holdfast_job_attempt{job="speech"} 0.0' in text
    assert 'holdfast_nodes{state="held"} 1.0' in text
    assert not re.search(r'[{,](rank|step)="', text)
    await driver.http.post("/v1alpha1/jobs/speech/stop")
    assert 'job="speech"' not in await scraped(driver)


async def test_requests_are_counted_by_operation_whatever_they_name(driver: Driver) -> None:
    for name in ("a", "b", "c"):
        await driver.http.get(f"/v1alpha1/jobs/{name}")
        await driver.http.get(f"/nowhere/{name}")
    await driver.http.request("BREW", "/healthz")
    counts = re.findall(r"^holdfast_requests_total\{(.*)\} (\S+)$", await scraped(driver), re.M)
    told = dict(counts)
    assert told['method="GET",route="/v1alpha1/jobs/{job}",status="404"'] == "3.0"
    assert told['method="GET",route="none",status="404"'] == "3.0"
    assert told['method="other",route="/healthz",status="405"'] == "1.0"


async def test_a_journal_that_cannot_be_read_costs_metrics_the_time_alone(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(driver)
    assert "holdfast_goodput_known 1.0" in await scraped(driver)

    def away(*_: Any, **__: Any) -> None:
        raise TemporaryError("the journal is away")

    monkeypatch.setattr(driver.control.ledger, "accounts", away)
    text = await scraped(driver)
    assert "holdfast_goodput_known 0.0" in text
    assert "holdfast_job_goodput_seconds{" not in text
    assert 'holdfast_job_attempt{job="speech"}' in text


async def test_of_a_journal_that_hangs_one_thread_waits_however_often_it_is_scraped(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(driver)
    goes_on, asked = threading.Event(), []

    def hangs(*_: Any, **__: Any) -> dict[str, Any]:
        asked.append(threading.get_ident())
        goes_on.wait(DEADLINE_S)
        return {}

    monkeypatch.setattr("holdfast.driver.adapters.metrics.driver.READ_S", 0.05)
    monkeypatch.setattr(driver.control.ledger, "accounts", hangs)
    try:
        for _ in range(3):
            assert "holdfast_goodput_known 0.0" in await scraped(driver)
        assert len(asked) == 1
    finally:
        goes_on.set()


# ---------------------------------------------------------------- what is shown of them


def dashboards() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        yield path.name, json.loads(path.read_text())


def asked() -> Iterator[str]:
    """Each expression of a dashboard or a rule."""
    for _, board in dashboards():
        yield from (target["expr"] for panel in board["panels"] for target in panel["targets"])
        yield from (each["query"]["query"] for each in board["templating"]["list"][1:])
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])


def names(expressions: Iterator[str]) -> set[str]:
    return {name for each in expressions for name in re.findall(r"\bholdfast_\w+", each)}


async def test_dashboards_and_alerts_ask_for_what_a_scrape_has(driver: Driver) -> None:
    await begun(driver)
    text = await scraped(driver)
    families = re.findall(r"^# TYPE (\S+) ", text, re.M)
    has = {family + end for family in families for end in ("", "_bucket")}
    wanted = names(asked())
    assert len(wanted) > 20
    assert wanted <= has
    assert names(iter(["rate(holdfast_job_speed[5m])"])) - has == {"holdfast_job_speed"}


async def test_a_driver_that_stands_by_answers_a_scrape_and_has_no_figures() -> None:
    transport = httpx.ASGITransport(Waiting().app)
    async with httpx.AsyncClient(transport=transport, base_url="http://driver") as http:
        told = await http.get("/metrics")
    assert (told.status_code, told.headers["content-type"][:10]) == (200, "text/plain")
    assert list(text_string_to_metric_families(told.text)) == []


def scrapes() -> dict[str, list[dict[str, Any]]]:
    """The configurations that we show: shipped, and on the page."""
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    shown = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    shipped = (DEPLOY / "prometheus" / "prometheus.yaml").read_text()
    told = {"shipped": shipped, "on the page": "".join(shown)}
    return {name: yaml.safe_load(text)["scrape_configs"] for name, text in told.items()}


@pytest.mark.parametrize("name", scrapes())
async def test_a_scrape_keeps_the_labels_that_alerts_and_dashboards_ask_for(
    driver: Driver, name: str
) -> None:
    """Of its own are `job` and `instance`: ours of that name would be renamed."""
    await begun(driver)
    assert 'job="speech"' in await scraped(driver)
    (scrape,) = scrapes()[name]
    assert scrape["honor_labels"]
    away = f'up{{job="{scrape["job_name"]}"}} == 0 '
    assert any(asks.startswith(away) for asks in asked())


async def test_the_page_on_metrics_names_each_of_them(driver: Driver) -> None:
    text = await scraped(driver)
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text().partition("## Daemons")[0]
    own = set(re.findall(r"^# TYPE (holdfast_\S+) ", text, re.M))
    made = {name for name in own if name.endswith("_created")}
    assert own - made == set(re.findall(r"^\| `(holdfast_\w+)` \|", page, re.M))


@pytest.mark.parametrize("name", [name for name, _ in dashboards()])
def test_no_panel_of_a_dashboard_lies_on_another(name: str) -> None:
    board = dict(dashboards())[name]
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        assert panel["description"], f"{name}: {panel['title']} does not say what it is"
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)

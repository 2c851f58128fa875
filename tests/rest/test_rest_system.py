"""What machines ask: metrics, readiness, the schema, OpenAPI."""

import re
import subprocess
import sys

from msgspec.structs import replace
from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE

from holdfast.driver.adapters.metrics.driver import Metrics
from holdfast.driver.core import events
from holdfast.driver.core.state.model import Incident
from holdfast.protocol import jobspec
from holdfast.protocol.faults import Blame, Kind


async def test_metrics_count_jobs_by_phase_and_nodes_by_name(driver: Driver) -> None:
    await driver.submit()
    await driver.happened(*NODE)
    del driver.http.headers["authorization"]
    text = (await driver.http.get("/metrics")).text
    assert 'holdfast_jobs{phase="Running"} 0.0' in text
    assert 'holdfast_node_connected{node="node-1"} 1.0' in text
    assert "holdfast_accepting 1.0" in text
    assert "holdfast_event_loop_lag_seconds" in text
    assert "rank=" not in text


def test_metrics_time_each_recovery_once_and_none_that_the_next_fault_overtook() -> None:
    metrics = Metrics()
    known = {"kind": Kind.HANG, "blame": Blame.UNKNOWN, "summary": "", "opened": 1, "found_s": 1.0}
    back = Incident(id=1, resumed_s=3.0, **known)
    for incident in (back, back, replace(back, id=2, overtaken=True)):
        metrics._count(incident)
    sample = metrics.registry.get_sample_value
    assert sample("holdfast_incidents_total", {"kind": "hang", "blame": "unknown"}) == 2
    assert sample("holdfast_recovery_seconds_count", {"kind": "hang"}) == 1


async def test_a_ready_driver_says_so_without_a_token(driver: Driver) -> None:
    del driver.http.headers["authorization"]
    assert (await driver.http.get("/readyz")).json() == {"ready": True, "why": "", "stale": False}


async def test_a_driver_without_its_keeper_says_so_wherever_nodes_are_missed(
    driver: Driver,
) -> None:
    await driver.submit()
    driver.control.away = lambda: "the keeper at k.sock does not answer"
    ready = await driver.http.get("/readyz")
    assert ready.json()["ready"]
    assert ready.json()["why"] == "the keeper at k.sock does not answer"
    job = (await driver.http.get("/v1alpha1/jobs/speech")).json()
    assert job["waiting"].endswith("; the keeper at k.sock does not answer")
    await driver.happened(*NODE)
    await driver.happened(events.NodeVanished(node="node-1"))
    (node,) = (await driver.http.get("/v1alpha1/nodes")).json()["items"]
    assert (node["state"], node["reason"]) == ("gone", "the keeper at k.sock does not answer")


async def test_a_job_says_what_keeps_an_executor_from_running(driver: Driver) -> None:
    await driver.submit()
    driver.control.hindrance = lambda job: f"ImagePullBackOff of {job}"
    said = (await driver.http.get("/v1alpha1/jobs/speech")).json()["waiting"]
    assert said.endswith("; ImagePullBackOff of speech")


async def test_the_schema_is_the_one_of_the_protocol(driver: Driver) -> None:
    assert (await driver.http.get("/v1alpha1/schema")).json() == jobspec.schema()


async def test_openapi_describes_every_route_and_shows_a_job(driver: Driver) -> None:
    described = (await driver.http.get("/openapi.json")).json()
    assert "/v1alpha1/jobs/{job}/ranks/{rank}/logs" in described["paths"]
    submit = described["paths"]["/v1alpha1/jobs"]["post"]
    body = submit["requestBody"]["content"]["application/json"]
    assert body["example"]["kind"] == "TrainingJob"
    assert "$ref" not in str(body["schema"])
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            assert route.get("description"), f"{method} {path} has no sentence"


def test_the_application_loads_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import holdfast.driver.adapters.rest.app\n"
        "assert not {'safetensors', 'fsspec'} & set(sys.modules), sys.modules.keys()\n"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert loaded.returncode == 0


async def test_the_page_of_the_interface_loads_nothing_from_elsewhere(driver: Driver) -> None:
    del driver.http.headers["authorization"]
    page = (await driver.http.get("/docs")).text
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    loaded += re.findall(r"""url: ["']([^"']+)""", page)
    assert len(loaded) == 4
    for address in loaded:
        answer = await driver.http.get(f"/{address}")
        assert answer.status_code == 200, address
        assert len(answer.content) > 1_000

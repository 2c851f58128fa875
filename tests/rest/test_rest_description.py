"""What OpenAPI shows of each operation: examples that its own schemas accept, and its problems."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from tests.rest.conftest import JOB, Driver
from tests.rest.test_rest_nodes import NODE
from waiting import DEADLINE_S

from holdfast.driver.adapters.rest.app import PREFIX, make_app
from holdfast.driver.adapters.rest.description import inlined, operations
from holdfast.driver.adapters.rest.problems import MEDIA_TYPE, ProblemView
from holdfast.driver.settings import Settings
from holdfast.kit.clock import SystemClock

SETTINGS = Settings(state=Path("nowhere"), _cli_parse_args=[])
UNASKED = SimpleNamespace(settings=SETTINGS, clock=SystemClock())
DOCUMENT: dict[str, Any] = make_app(UNASKED).openapi()  # type: ignore[arg-type]
DEFINITIONS: dict[str, Any] = DOCUMENT["components"]["schemas"]
OPERATIONS = {name: operation for name, _, operation in operations(DOCUMENT, PREFIX)}


def valid(example: Any, schema: dict[str, Any]) -> None:
    """JSON Schema 2020-12, which is what OpenAPI 3.1 uses; members that it lacks are mistakes."""
    whole = closed(inlined(schema, DEFINITIONS))
    jsonschema.validate(example, whole, cls=jsonschema.Draft202012Validator)


def closed(schema: Any) -> Any:
    """The schema with no room for members that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False} | inner if "properties" in schema else inner


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for status, response in operation["responses"].items():
        for media_type, content in response["content"].items():
            yield status, media_type, content


@pytest.fixture(params=OPERATIONS)
def operation(request: pytest.FixtureRequest) -> dict[str, Any]:
    return OPERATIONS[request.param]


def test_a_good_answer_is_shown_that_fits_its_schema(operation: dict[str, Any]) -> None:
    (good,) = (content for status, _, content in contents(operation) if status[0] == "2")
    assert good["schema"], "a schema that accepts anything says nothing"
    assert good["example"]
    valid(good["example"], good["schema"])


def test_every_request_is_shown_with_parameters_and_body_that_fit(
    operation: dict[str, Any],
) -> None:
    for parameter in operation.get("parameters", ()):
        valid(parameter["example"], parameter["schema"])
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]
        valid(body["example"], body["schema"])


def test_problems_are_shown_with_what_to_do_and_nothing_else_is_said_of_errors(
    operation: dict[str, Any],
) -> None:
    for status, media_type, content in contents(operation):
        if media_type != MEDIA_TYPE:
            continue
        for example in content["examples"].values():
            valid(example["value"], content["schema"])
            assert str(example["value"]["status"]) == status
            assert example["value"]["detail"]
            assert example["value"]["fix"] or example["value"]["errors"]
    assert "HTTPValidationError" not in str(operation)


def test_whoever_needs_a_token_is_shown_what_comes_without_one(operation: dict[str, Any]) -> None:
    assert ("security" in operation) == ("401" in operation["responses"])


async def test_what_is_shown_is_what_is_answered(driver: Driver) -> None:
    """The same requests to a driver: each answer fits the schema that is shown for it."""
    await driver.happened(*NODE)
    assert (await driver.submit(name="speech-7b")).status_code == 201
    succeeded = 0
    for name, operation in OPERATIONS.items():
        method, path = name.split()
        if method in ("POST", "DELETE") or name == "GET /events":
            continue
        url = path if path in ("/healthz", "/readyz", "/metrics") else PREFIX + path
        named = {"number": 9, "rank": 1, "diagnosis": 9, "burst": 9, "webhook": "on-call"}
        url = url.format(job="speech-7b", node="node-1", **named)
        answer = await asyncio.wait_for(driver.http.request(method, url), DEADLINE_S)
        succeeded += answer.is_success
        content = operation["responses"][str(answer.status_code)]["content"]
        shown = content[answer.headers["content-type"].partition(";")[0]]
        text = shown["schema"] == {"type": "string"}
        valid(answer.text if text else answer.json(), shown["schema"])
    assert succeeded > 12


@pytest.mark.parametrize(
    ("method", "path", "sent", "name"),
    [
        ("POST", "/jobs", {"content": b"nodes: 4"}, "not-json"),
        ("POST", "/jobs", {"json": JOB | {"spec": {"nodes": 0}}}, "mistakes"),
        ("GET", "/jobs?limit=0", {}, "bad-query"),
        ("GET", "/jobs?continue=x", {}, "bad-token"),
        ("GET", "/jobs/speech-7b", {}, "no-such-job"),
        ("POST", "/nodes/node-4/evict", {"json": {}}, "no-reason"),
        ("GET", "/incidents/x", {}, "no-number"),
        ("GET", "/jobs", {"headers": {"authorization": "Bearer x"}}, "wrong-token"),
    ],
)
async def test_a_refusal_has_the_status_and_the_sentence_that_are_shown(
    driver: Driver, method: str, path: str, sent: dict[str, Any], name: str
) -> None:
    answer = await driver.http.request(method, PREFIX + path, **sent)
    assert ProblemView.model_validate(answer.json(), strict=True, extra="forbid")
    generic = path.partition("?")[0].replace("speech-7b", "{job}").replace("node-4", "{node}")
    operation = OPERATIONS[f"{method} {generic.replace('/x', '/{number}')}"]
    shown = operation["responses"][str(answer.status_code)]["content"][MEDIA_TYPE]["examples"]
    same = {"title", "type"} | ({"detail"} if name not in ("mistakes", "no-such-job") else set())
    assert {k: answer.json()[k] for k in same} == {k: shown[name]["value"][k] for k in same}

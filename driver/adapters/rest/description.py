"""Completes what FastAPI says of the interface: examples and problems at every operation. Pure.

Called by `app` once, when `/openapi.json` is first asked for. Must not describe what is not so: all
that it adds is in `examples`, `refusals` and the schemas of those who answer.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import msgspec

from holdfast.driver.adapters.rest.body import NOTICE_SCHEMA, REASON_SCHEMA
from holdfast.driver.adapters.rest.bursts import SCHEMA as BURST_SCHEMA
from holdfast.driver.adapters.rest.diagnoses import NODES_SCHEMA
from holdfast.driver.adapters.rest.examples import ANSWERS, BODIES, PARAMETERS, Text
from holdfast.driver.adapters.rest.facts import JOB_FACT_SCHEMA, NODE_FACT_SCHEMA
from holdfast.driver.adapters.rest.problems import MEDIA_TYPE, ProblemView, queried
from holdfast.driver.adapters.rest.ranks import Ranks, View3d
from holdfast.driver.adapters.rest.refusals import REFUSALS, Refusals, not_known
from holdfast.driver.adapters.rest.stacks import SCHEMA as STACKS_SCHEMA
from holdfast.driver.watch import JobProgress
from holdfast.protocol import jobspec

Document = dict[str, Any]

PROBLEM = "#/components/schemas/ProblemView"


def completed(document: Document, prefix: str) -> Document:
    """FastAPI's document, completed in place. `prefix` is what comes before a route's path."""
    schemas: Document = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's errors, which we never send
        del schemas[name]
    problem = ProblemView.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs") | {"ProblemView": problem}
    for name, path, operation in operations(document, prefix):
        for parameter in operation.get("parameters", ()):
            parameter["example"] = PARAMETERS[parameter["name"]]
        if name in BODIES:
            content = _json(SCHEMAS[name], BODIES[name])
            operation["requestBody"] = {"required": True, "content": content}
        _answer(operation["responses"], name)
        refusals = REFUSALS[name] | not_known(queried(operation))
        operation["responses"] |= dict(_problems(refusals, _instance(path)))
    return document


def operations(document: Document, prefix: str) -> Iterator[tuple[str, str, Document]]:
    """Each operation: its name (`GET /jobs/{job}`), its whole path, and what is said of it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path.removeprefix(prefix)}", path, operation


def _answer(responses: Document, name: str) -> None:
    """Show the good answer, in the schema that FastAPI knows or in ours."""
    responses.pop("422", None)
    (good,) = (response for status, response in responses.items() if status[0] == "2")
    example = ANSWERS[name]
    if isinstance(example, Text):
        text = {"schema": {"type": "string"}, "example": example.text}
        good["content"] = {example.media_type: text}
        return
    known = good["content"]["application/json"]["schema"]
    good["content"] = _json(ANSWERED.get(name, known), example)


def _problems(refusals: Refusals, instance: str) -> Iterator[tuple[str, Document]]:
    """By status, each refusal that has it."""
    for status in sorted({problem.status for problem in refusals.values()}):
        examples = {
            name: {"value": problem.body(instance)}
            for name, problem in refusals.items()
            if problem.status == status
        }
        content = {MEDIA_TYPE: {"schema": {"$ref": PROBLEM}, "examples": examples}}
        yield str(status), {"description": HTTPStatus(status).phrase, "content": content}


def _instance(path: str) -> str:
    names = ("job", "node", "number", "rank", "diagnosis", "webhook", "burst")
    return path.format(**{name: PARAMETERS[name] for name in names})


def _json(schema: Document, example: Any) -> Document:
    return {"application/json": {"schema": schema, "example": example}}


def inlined(node: Any, definitions: Document) -> Any:
    """A JSON schema without `$ref`, so that it can stand inside an OpenAPI document."""
    if isinstance(node, dict):
        if "$ref" in node:
            target = definitions[node["$ref"].rsplit("/", 1)[1]]
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return inlined({**target, **rest}, definitions)
        return {key: inlined(value, definitions) for key, value in node.items() if key != "$defs"}
    return [inlined(each, definitions) for each in node] if isinstance(node, list) else node


def _whole(schema: Document) -> Document:
    whole: Document = inlined(schema, schema.get("$defs", {}))
    return whole


SCHEMAS: dict[str, Document] = {
    "POST /jobs": _whole(jobspec.schema()),
    "PUT /jobs/{job}": _whole(jobspec.schema()),
    "POST /nodes/{node}/evict": REASON_SCHEMA,
    "POST /nodes/{node}/restore": REASON_SCHEMA,
    "POST /nodes/{node}/maintain": NOTICE_SCHEMA,
    "POST /nodes/{node}/facts": NODE_FACT_SCHEMA,
    "POST /jobs/{job}/facts": JOB_FACT_SCHEMA,
    "POST /jobs/{job}/stacks": STACKS_SCHEMA,
    "POST /nodes/{node}/burst": BURST_SCHEMA,
    "POST /diagnoses": NODES_SCHEMA,
    "POST /brake/apply": REASON_SCHEMA,
    "POST /brake/release": REASON_SCHEMA,
}
"""Of the bodies: their routers read them themselves, within the limit."""

ANSWERED: dict[str, Document] = {
    "GET /jobs/{job}/progress": _whole(msgspec.json.schema(JobProgress | None)),
    "GET /jobs/{job}/ranks": _whole(msgspec.json.schema(Ranks)),
    "GET /jobs/{job}/view3d": _whole(msgspec.json.schema(View3d)),
}
"""Of answers that are no `View`."""

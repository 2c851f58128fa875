"""Bodies that OpenAPI shows as examples, and the schema of a job where it is wanted."""

from typing import Any

from holdfast.protocol.jobspec import schema

JOB = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech-7b", "labels": {"team": "speech"}},
    "spec": {
        "nodes": 4,
        "ranksPerNode": 2,
        "standbys": 1,
        "command": ["python", "train.py", "--lr", "3e-4"],
        "workdir": "/data/speech",
        "topology": {"tp": 2, "pp": 2, "dp": 2},
    },
}


def _body(schema_of_it: dict[str, Any], **examples: dict[str, Any]) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": schema_of_it, "examples": named}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """A JSON schema without `$ref`, so that it can stand inside an OpenAPI document."""
    if isinstance(node, dict):
        if "$ref" in node:
            target = definitions[node["$ref"].rsplit("/", 1)[1]]
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return _inlined({**target, **rest}, definitions)
        return {k: _inlined(v, definitions) for k, v in node.items() if k != "$defs"}
    return [_inlined(each, definitions) for each in node] if isinstance(node, list) else node


_SCHEMA = schema()
SUBMIT = _body(_inlined(_SCHEMA, _SCHEMA.get("$defs", {})), job=JOB)
REASON = _body(
    {
        "type": "object",
        "required": ["reason"],
        "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 500}},
    },
    reason={"reason": "its fan is loud; a technician looks at it on Monday"},
)

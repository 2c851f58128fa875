"""Methods of the client, sync and async: source text, from the OpenAPI document. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from keyword import iskeyword
from textwrap import wrap
from typing import Any

import msgspec

from holdfast.lab.client.models import annotation, is_model, name_of

OF_DOCUMENT = ("POST /jobs", "PUT /jobs/{job}")
"""Operations whose body is a whole TrainingJob."""

NAMES: Mapping[str, str] = {
    "POST /jobs": "submit_document",
    "GET /jobs": "jobs_page",
    "GET /jobs/{job}": "job",
    "PUT /jobs/{job}": "update_document",
    "DELETE /jobs/{job}": "delete",
    "POST /jobs/{job}/suspend": "suspend",
    "POST /jobs/{job}/resume": "resume",
    "POST /jobs/{job}/stop": "stop",
    "GET /jobs/{job}/progress": "progress",
    "GET /jobs/{job}/attempts": "attempts",
    "GET /jobs/{job}/ranks": "ranks",
    "GET /jobs/{job}/view3d": "view3d",
    "GET /jobs/{job}/curves": "curves",
    "GET /jobs/{job}/spans": "spans",
    "GET /jobs/{job}/goodput": "goodput",
    "GET /goodput": "goodput_of_all",
    "GET /jobs/{job}/bursts": "bursts",
    "GET /jobs/{job}/bursts/{burst}": "burst",
    "GET /jobs/{job}/bursts/{burst}.svg": "burst_svg",
    "POST /nodes/{node}/burst": "take_burst",
    "POST /jobs/{job}/stacks": "stacks",
    "GET /jobs/{job}/story": "story",
    "GET /jobs/{job}/why": "why",
    "GET /nodes": "nodes",
    "GET /nodes/{node}": "node",
    "GET /nodes/{node}/why": "why_node",
    "POST /nodes/{node}/evict": "evict",
    "POST /nodes/{node}/restore": "restore",
    "POST /nodes/{node}/maintain": "maintain",
    "POST /nodes/{node}/facts": "tell_of_node",
    "POST /jobs/{job}/facts": "tell_of_job",
    "GET /evidence": "evidence",
    "POST /diagnoses": "diagnose",
    "GET /diagnoses/{diagnosis}": "diagnosis",
    "DELETE /diagnoses/{diagnosis}": "end_diagnosis",
    "POST /diagnoses/{diagnosis}/calibrate": "calibrate",
    "GET /calibrations": "calibrations",
    "GET /brake": "brake",
    "POST /codes": "make_code",
    "POST /brake/apply": "apply_brake",
    "POST /brake/release": "release_brake",
    "GET /incidents": "incidents",
    "GET /incidents/{number}": "incident",
    "GET /digest": "digest",
    "GET /webhooks": "webhooks",
    "POST /webhooks/{webhook}/test": "test_webhook",
    "GET /schema": "schema",
    "GET /healthz": "healthz",
    "GET /metrics": "metrics",
}
"""What each operation is called. A new route needs its line here."""

BY_HAND: Mapping[str, str] = {
    "GET /jobs/{job}/ranks/{rank}/logs": "logs",
    "GET /events": "follow",
    "GET /readyz": "readiness",
}
"""Those that are no plain question and answer: methods of `Client` and `AsyncClient` themselves."""

RENAMED = {"continue": "page", "all": "whole"}
"""Parameters whose name is a word of Python."""

KEY = "Idempotency-Key"

HEAD = '''"""Every operation of the driver. Written by `python -m holdfast.lab.client`."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.client import models


class Asks(Protocol):
    """Puts a question to the driver; see `client.sync`."""

    def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any: ...


class AsksLater(Protocol):
    """The same for who awaits the answer; see `client.asynchronous`."""

    async def _ask(
        self,
        method: str,
        parts: Sequence[str | int],
        kind: Any,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
    ) -> Any: ...
'''


class Operation(msgspec.Struct, frozen=True):
    """One of the document. `answer`: its class, a type, or None for text."""

    name: str
    path: str
    says: str
    parameters: tuple[dict[str, Any], ...]
    body: dict[str, Any] | None
    answer: Any


def source(operations: list[Operation]) -> str:
    """The whole module."""
    wanted = [each for each in operations if each.name not in BY_HAND]
    sync = "\n".join("\n".join(_method(each, later=False)) for each in wanted)
    later = "\n".join("\n".join(_method(each, later=True)) for each in wanted)
    begin = 'class {}({}):\n    """Each operation{}."""\n'
    return "\n\n".join(
        [
            HEAD,
            begin.format("Operations", "Asks", "") + "\n" + sync,
            begin.format("AsyncOperations", "AsksLater", ", to be awaited") + "\n" + later,
        ]
    )


def _part(part: str) -> str:
    """Of a path, as source: a parameter, a word, or one with an ending, as `{burst}.svg`."""
    if part.startswith("{") and part.endswith("}"):
        return part[1:-1]
    return f'f"{part}"' if part.startswith("{") else f'"{part}"'


def _method(operation: Operation, *, later: bool) -> Iterator[str]:
    answer = _answered(operation.answer)
    parts = [each for each in operation.path.split("/") if each]
    in_path = re.findall(r"\{(\w+)\}", operation.path)
    said = ", ".join(_part(each) for each in parts)
    said += "," if len(parts) == 1 else ""
    arguments = [*_in_path(operation, in_path), *_more(operation)]
    listed_arguments = ", ".join(("self", *arguments))
    begin = "async def" if later else "def"
    yield f"    {begin} {NAMES[operation.name]}({listed_arguments}) -> {answer}:"
    yield from _says(operation.says)
    call = f'self._ask("{operation.name.split()[0]}", ({said}), {_kind(operation.answer)}'
    call += "".join(f", {each}" for each in _given(operation)) + ")"
    asked = f"await {call}" if later else call
    if listed(operation.answer):
        asked = f"({asked}).items"
    yield f"        told: {answer} = {asked}"
    yield "        return told"
    yield ""


def _says(text: str) -> list[str]:
    lines = wrap(text, 84) or ["See docs/api.md."]
    if len(lines) == 1:
        return [f'        """{lines[0]}"""']
    return [f'        """{lines[0]}', *(f"        {each}" for each in lines[1:]), '        """']


def _in_path(operation: Operation, names: list[str]) -> Iterator[str]:
    kinds = {each["name"]: each["schema"] for each in operation.parameters}
    yield from (f"{name}: {_typed(kinds[name])}" for name in names)


def _more(operation: Operation) -> list[str]:
    """What is named: members of the body, then of the query, then the key."""
    if operation.name in OF_DOCUMENT:
        return ["document: Mapping[str, Any]", "*", "key: str | None = None"]
    wanted = []
    needed = (operation.body or {}).get("required", ())
    for name, schema in (operation.body or {}).get("properties", {}).items():
        kind = _typed(schema) if name in needed else f"{_optional(schema)} = None"
        wanted.append(f"{_word(name)}: {kind}")
    queried = ((_word(each["name"]), _optional(each["schema"])) for each in _query(operation))
    wanted += [f"{name}: {kind} = None" for name, kind in queried]
    wanted += ["key: str | None = None"] if _has_key(operation) else []
    return ["*", *wanted] if wanted else []


def _given(operation: Operation) -> Iterator[str]:
    if query := _query(operation):
        yield _members("query", [each["name"] for each in query])
    if operation.name in OF_DOCUMENT:
        yield "body=document"
    elif operation.body is not None:
        yield _members("body", operation.body["properties"])
    if _has_key(operation):
        yield "key=key"


def _members(of: str, names: Iterable[str]) -> str:
    """`query={"limit": limit}`."""
    return f"{of}={{" + ", ".join(f'"{name}": {_word(name)}' for name in names) + "}"


def _query(operation: Operation) -> list[dict[str, Any]]:
    return [each for each in operation.parameters if each["in"] == "query"]


def _has_key(operation: Operation) -> bool:
    return any(each["name"] == KEY for each in operation.parameters)


def _word(name: str) -> str:
    return RENAMED.get(name, f"{name}_" if iskeyword(name) else name)


_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def _typed(schema: Mapping[str, Any]) -> str:
    """A parameter's type, of its JSON schema."""
    if "anyOf" in schema:
        return " | ".join(_typed(each) for each in schema["anyOf"])
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        return " | ".join(_TYPES[each] for each in kind)
    if kind == "array":
        return f"Sequence[{_typed(schema['items'])}]"
    return _TYPES[kind]


def _optional(schema: Mapping[str, Any]) -> str:
    kind = _typed(schema)
    return kind if "None" in kind else f"{kind} | None"


def _answered(answer: Any) -> str:
    """As the method's type; what is in a list alone is that list."""
    if answer is None:
        return "str"
    if inner := listed(answer):
        return f"list[{_qualified(inner)}]"
    return _qualified(answer)


def _kind(answer: Any) -> str:
    return "None" if answer is None else _qualified(answer)


def _qualified(answer: Any) -> str:
    """`models.Job | None`."""
    if is_model(answer):
        return f"models.{name_of(answer)}"
    parts = annotation(answer).split(" | ")
    return " | ".join(each if each in _BUILT_IN else f"models.{each}" for each in parts)


_BUILT_IN = ("None", "dict[str, Any]", "Any")


def listed(answer: Any) -> Any:
    """The class of the items where an answer has nothing else."""
    fields = getattr(answer, "model_fields", {})
    return fields["items"].annotation.__args__[0] if set(fields) == {"items"} else None

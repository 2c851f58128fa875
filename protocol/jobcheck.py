"""One way from a document to a `TrainingJob`: all mistakes at once, or the job. Pure.

Called by the REST edge with what a person sent, and by the command line with what a file says.
"""

import json
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from holdfast.protocol.jobspec import Spec, TrainingJob
from holdfast.protocol.mistakes import BadDocument, Mistake, in_our_words, shown
from holdfast.protocol.texts import mended, unusable

_STAND_IN = {"command": ["-"]}
"""Stands for a required field that is wrong, so that the others can still be held together."""


def check(document: object) -> TrainingJob:
    """The job that `document` (plain JSON values) describes. Raises `BadDocument`."""
    if not isinstance(document, Mapping):
        raise BadDocument(
            [Mistake(field="", value=shown(document), why="this is not a job.", fix=_SHAPE)]
        )
    if texts := tuple(unusable(document)):
        raise BadDocument((*texts, *_mistakes_of(mended(document))))
    try:
        return _job_of(document)
    except ValidationError as refused:
        raise BadDocument(_mistakes(document, refused)) from None


def _job_of(document: Mapping[str, Any]) -> TrainingJob:
    return TrainingJob.model_validate_json(_as_json(document), strict=True)


def _mistakes_of(document: Mapping[str, Any]) -> list[Mistake]:
    try:
        _job_of(document)
    except ValidationError as refused:
        return _mistakes(document, refused)
    return []


def _mistakes(document: Mapping[str, Any], refused: ValidationError) -> list[Mistake]:
    """All that is wrong with a document that was refused."""
    mistakes = _outermost_dropped(_told(refused))
    wrong = _wrong_in_spec(mistakes)
    found = {mistake.field for mistake in mistakes}
    return mistakes + [each for each in _contradictions(document, wrong) if each.field not in found]


def check_without_pods(document: object) -> TrainingJob:
    """As `check`, for a cluster that has no pods: what it would not honour is refused."""
    job = check(document)
    if job.spec.pod is not None:
        raise BadDocument([_NO_PODS])
    return job


_NO_PODS = Mistake(
    field="spec.pod",
    value="",
    why="nodes of this driver have no pods.",
    fix="Remove it, or create the job with kubectl.",
)
_SHAPE = "Write a mapping with metadata (name) and spec (command, nodes, …)."


def _as_json(document: Mapping[str, Any]) -> bytes:
    """Checked as JSON, so that `true` is no number and `"4"` no size, wherever it came from."""
    return json.dumps(document, default=str).encode()


def _outermost_dropped(mistakes: list[Mistake]) -> list[Mistake]:
    """Without those about a list or mapping that is wrong only because of what is in it."""
    fields = [mistake.field for mistake in mistakes]
    return [
        mistake
        for mistake in mistakes
        if not any(other.startswith((f"{mistake.field}[", f"{mistake.field}.")) for other in fields)
    ]


def _told(refused: ValidationError) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for error in refused.errors():
        if error["type"] == "contradictions":
            prefix = "".join(f"{part}." for part in error["loc"])
            mistakes += [
                Mistake(field=prefix + found.field, value=found.value, why=found.why, fix=found.fix)
                for found in error["ctx"]["mistakes"]
            ]
        else:
            mistakes.append(in_our_words(dict(error), _known_at(error["loc"][:-1])))
    return mistakes


def _wrong_in_spec(mistakes: list[Mistake]) -> set[str]:
    """Names of the spec's own fields that have a mistake in or below them."""
    inside = (mistake.field.removeprefix("spec.") for mistake in mistakes)
    return {field.split(".")[0].split("[")[0] for field in inside}


def _contradictions(document: Mapping[str, Any], wrong: set[str]) -> list[Mistake]:
    """What contradicts between the fields that are right by themselves."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return []
    known = _fields(Spec)
    kept = {name: value for name, value in spec.items() if name in known and name not in wrong}
    try:
        Spec.model_validate_json(_as_json(_STAND_IN | kept), strict=True)
    except ValidationError as refused:
        return [
            Mistake(field=f"spec.{late.field}", value=late.value, why=late.why, fix=late.fix)
            for late in _told(refused)
            if not wrong & _NEEDS.get(late.field, frozenset())
        ]
    return []


_NEEDS = {"topology": frozenset({"nodes", "ranksPerNode", "topology"})}
"""What a rule looks at: it is silent where one of these is wrong by itself."""


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """A model's fields by the names that people write."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _known_at(place: tuple[str | int, ...]) -> list[str]:
    """Field names of the model at `place` in a `TrainingJob`."""
    model: Any = TrainingJob
    for part in place:
        if isinstance(part, str):
            model = _fields(model).get(part)
        else:
            model = next((kind for kind in get_args(model) if _is_model(kind)), None)
        if not _is_model(model):
            return _known_inside(model)
    return list(_fields(model))


def _known_inside(kind: Any) -> list[str]:
    inner = next((part for part in get_args(kind) if _is_model(part)), None)
    return list(_fields(inner)) if inner is not None else []


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)

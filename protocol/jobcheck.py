"""One way from a document to a `TrainingJob`: all mistakes at once, or the job. Pure.

Called by the REST edge with what a person sent, and by the command line with what a file says.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from holdfast.protocol.jobspec import Spec, TrainingJob
from holdfast.protocol.mistakes import (
    MOST_TOLD,
    BadDocument,
    Mistake,
    field_of,
    in_our_words,
    shown,
)
from holdfast.protocol.texts import mended, unusable

_STAND_IN = {"command": ["-"]}
"""Stands for a required field that is wrong, so that the others can still be held together."""


def check(document: object) -> TrainingJob:
    """The job that `document` (plain JSON values) describes. Raises `BadDocument`."""
    if not isinstance(document, Mapping):
        raise BadDocument(
            [Mistake(field="", value=shown(document), why="this is not a job.", fix=_SHAPE)]
        )
    wrong = unusable(document)
    if texts := tuple(islice(wrong, MOST_TOLD)):
        others = _mistakes_of(mended(document))
        more = sum(1 for _ in wrong) + others.more
        raise BadDocument((*texts, *others.told), more=more)
    try:
        return _job_of(document)
    except ValidationError as refused:
        found = _mistakes(document, refused)
        raise BadDocument(found.told, more=found.more) from None


class _Found(NamedTuple):
    """Mistakes in words, and how many more there are."""

    told: Sequence[Mistake] = ()
    more: int = 0


class _Unworded(NamedTuple):
    """A mistake that is not yet put into words, which takes longer than to find it."""

    field: str
    error: Mapping[str, Any]
    known: Mistake | None = None  # in words already

    def worded(self) -> Mistake:
        return self.known or in_our_words(self.error, _known_at(self.error["loc"][:-1]))


def _job_of(document: Mapping[str, Any]) -> TrainingJob:
    return TrainingJob.model_validate_json(_as_json(document), strict=True)


def _mistakes_of(document: Mapping[str, Any]) -> _Found:
    try:
        _job_of(document)
    except ValidationError as refused:
        return _mistakes(document, refused)
    return _Found()


def _mistakes(document: Mapping[str, Any], refused: ValidationError) -> _Found:
    """All that is wrong with a document that was refused, or the first of it."""
    mistakes = _outermost_dropped(_unworded(refused))
    fields = {mistake.field for mistake in mistakes}
    unread = "" in fields  # as JSON, which says nothing of what is in it
    late = [] if unread else _contradictions(document, _wrong_in_spec(fields))
    told = [mistake.worded() for mistake in mistakes[:MOST_TOLD]]
    told += [each for each in late if each.field not in fields]
    return _Found(told, len(mistakes[MOST_TOLD:]))


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


def _outermost_dropped(mistakes: list[_Unworded]) -> list[_Unworded]:
    """Without those about a list or mapping that is wrong only because of what is in it."""
    outer = {field[:end] for field in {each.field for each in mistakes} for end in _ends(field)}
    return [each for each in mistakes if each.field not in outer]


def _ends(field: str) -> Iterable[int]:
    """Where the names of what `field` is in end, of the MOST_DEEP outermost."""
    return islice((at for at, letter in enumerate(field) if letter in ".["), MOST_DEEP)


MOST_DEEP = 16
"""Names have dots too: one of a thousand dots is in no thousand mappings. A spec is less deep."""


def _unworded(refused: ValidationError) -> list[_Unworded]:
    mistakes: list[_Unworded] = []
    for error in refused.errors(include_url=False):
        if error["type"] == "contradictions":
            prefix = "".join(f"{part}." for part in error["loc"])
            for found in error["ctx"]["mistakes"]:
                told = replace(found, field=prefix + found.field)
                mistakes.append(_Unworded(told.field, error, told))
        else:
            mistakes.append(_Unworded(field_of(error), error))
    return mistakes


def _wrong_in_spec(fields: Iterable[str]) -> set[str]:
    """Names of the spec's own fields that have a mistake in or below them."""
    inside = (field.removeprefix("spec.") for field in fields)
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
            replace(late.worded(), field=f"spec.{late.field}")
            for late in _unworded(refused)
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

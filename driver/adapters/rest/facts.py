"""Routes for facts that people tell of a node, a link, or a version of a job."""

from typing import Any, get_args

from fastapi import APIRouter, Depends, Request

from holdfast.driver.adapters.rest.asking import Done, IdempotencyKey, ask, key_of
from holdfast.driver.adapters.rest.body import is_whole, read_json
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.nodes import PERSON
from holdfast.driver.adapters.rest.parameters import MAX_SEQUENCE
from holdfast.driver.core import events
from holdfast.driver.people import admission
from holdfast.protocol.mistakes import BadDocument, Mistake, shown

SAYS = get_args(events.Says)


def _schema(**more: Any) -> dict[str, Any]:
    words = {"type": "string", "minLength": 1, "maxLength": admission.LONGEST_WORDS}
    says = {"enum": list(SAYS), "default": "context"}
    return {
        "type": "object",
        "required": ["words"],
        "properties": {"words": words, "says": says, **more},
        "additionalProperties": False,
    }


NODE_FACT_SCHEMA = _schema(to={"type": "string"})
JOB_FACT_SCHEMA = _schema(
    version={"type": ["integer", "null"], "minimum": 1, "maximum": MAX_SEQUENCE}
)

router = APIRouter(prefix=PREFIX, tags=["facts"], dependencies=[Depends(person)])


@router.post("/nodes/{node}/facts", status_code=202, dependencies=[NO_PARAMETERS])
async def tell_of_node(
    node: str, request: Request, control: Driver, key: IdempotencyKey = None
) -> Done:
    """Tell what you know of the node: `says` accuses, clears (all before is void), or context.
    With `to`, the name of another node: of the link from this one to that."""
    body = await read_json(request)
    _without_version(body)
    _only(body, NODE_FACT_SCHEMA)
    told = checked_fact(body) | checked_end(body.get("to"))
    event = events.NodeFactTold(node=node, by=PERSON, **told)
    return await ask(control, node, event, key=key_of(key, "fact", node, told))


@router.post("/jobs/{job}/facts", status_code=202, dependencies=[NO_PARAMETERS])
async def tell_of_job(
    job: str, request: Request, control: Driver, key: IdempotencyKey = None
) -> Done:
    """Tell what you know of a version of the job, the newest where none is named."""
    body = await read_json(request)
    _only(body, JOB_FACT_SCHEMA)
    told, version = checked_fact(body), checked_version(body.get("version"))
    event = events.JobFactTold(job=job, version=version, by=PERSON, **told)
    return await ask(control, job, event, key=key_of(key, "fact", job, told, version))


def checked_fact(body: Any) -> dict[str, Any]:
    """`words`, on one line, and `says`. Raises `BadDocument` with all mistakes."""
    given = body if isinstance(body, dict) else {}
    words, says = given.get("words"), given.get("says", "context")
    mistakes = []
    if not (isinstance(words, str) and words.strip() and is_whole(words)):
        fix = f"Send a sentence of at most {admission.LONGEST_WORDS} characters as `words`."
        mistakes.append(_mistake("words", words, _no_words(words), fix))
    elif len(words) > admission.LONGEST_WORDS:
        why = f"they have {len(words):,} characters."
        fix = f"Use {admission.LONGEST_WORDS} at most."
        mistakes.append(Mistake(field="words", value="", why=why, fix=fix))
    if says not in SAYS:
        why = f"{shown(says)} is nothing that a fact is for its subject."
        mistakes.append(_mistake("says", says, why, f"Send one of {', '.join(SAYS)}."))
    if mistakes:
        raise BadDocument(mistakes)
    return {"words": " ".join(str(words).split()), "says": says}


def _no_words(words: Any) -> str:
    if words is None:
        return "they are missing."
    if not isinstance(words, str):
        return f"{shown(words)} is no text."
    return "they have half of a character." if words.strip() else "they are empty."


def _only(body: Any, schema: dict[str, Any]) -> None:
    """Raises `BadDocument` for fields that mean nothing here: a `say` would clear nothing, and the
    words would be kept as a note."""
    fields = tuple(schema["properties"])
    fix = f"Send {', '.join(fields)}, or leave it out."
    given = body if isinstance(body, dict) else {}
    more = [name for name in given if name not in fields and given[name] is not None]
    if more:
        raise BadDocument(
            [_mistake(name, given[name], f"there is no field {name!r} here.", fix) for name in more]
        )


def checked_end(to: Any) -> dict[str, Any]:
    """The name of the node that a link leads to, where there is one. Raises `BadDocument`."""
    if to is None or (isinstance(to, str) and to and is_whole(to)):
        return {} if to is None else {"to": to}
    why = "it is the name of the node that a link leads to."
    raise BadDocument([_mistake("to", to, why, "Send a name, or leave it out.")])


def checked_version(version: Any) -> int | None:
    """The number, if it is one; None for the newest. Raises `BadDocument`."""
    if version is None:
        return None
    if type(version) is int and 1 <= version <= MAX_SEQUENCE:
        return version
    why = f"{shown(version)} is not the number of a version of a job."
    fix = "Send a whole number from 1, or leave it out for the newest."
    raise BadDocument([_mistake("version", version, why, fix)])


def _without_version(body: Any) -> None:
    """Raises `BadDocument` where a node is to have a version."""
    version = body.get("version") if isinstance(body, dict) else None
    if version is not None:
        why = f"{shown(version)} is of a node, and only jobs have versions."
        raise BadDocument([_mistake("version", version, why, "Leave it out, or tell it of a job.")])


def _mistake(field: str, value: Any, why: str, fix: str) -> Mistake:
    return Mistake(field=field, value="" if value is None else shown(value), why=why, fix=fix)

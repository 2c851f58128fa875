"""Reads a request's JSON body within the limit. Used by the routers that take one."""

import asyncio
import json
from typing import Any

from fastapi import Request

from holdfast.driver.adapters.rest.problems import Problem
from holdfast.protocol.mistakes import BadDocument, Mistake, shown

LIMIT_BYTES = 1 << 20
"""Largest body: the largest job spec that the schema allows in practice is some 100 KiB."""
WITHIN_S = 30.0
"""In which a body has to be here: 1 MiB at 35 KB a second."""
MAX_REASON_CHARACTERS = 500
REASON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "properties": {
        "reason": {"type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARACTERS}
    },
}


async def read_json(request: Request) -> Any:
    """The body as JSON values. Raises `Problem` (400, 408, 413); reads no more than the limit."""
    return await asyncio.to_thread(decoded, await read_bytes(request))


async def read_bytes(request: Request, *, limit_bytes: int = LIMIT_BYTES) -> bytes:
    """The body. Raises `Problem` (408, 413)."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > limit_bytes:
        raise too_large(f"{int(told):,} bytes", limit_bytes)
    try:
        async with asyncio.timeout(WITHIN_S):
            return await _read(request, limit_bytes)
    except TimeoutError:
        raise Problem(
            408, f"the body did not come within {WITHIN_S:g} s.", fix="Send it at once."
        ) from None


async def _read(request: Request, limit_bytes: int) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > limit_bytes:
            raise too_large(f"more than {limit_bytes:,} bytes", limit_bytes)
    return bytes(data)


def decoded(data: bytes) -> Any:
    """Raises `Problem` (400)."""
    try:
        return json.loads(data, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        why = f"the body is not JSON: {error}."
        raise Problem(400, why, fix="Send JSON (the command line converts YAML).") from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises `ValueError` where a name comes twice: one of the two would be dropped in silence."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"{name!a} is there twice; remove one of them")
        names.add(name)
    return dict(pairs)


def too_large(size: str, limit_bytes: int = LIMIT_BYTES) -> Problem:
    return Problem(
        413,
        f"the body has {size}, the limit is {limit_bytes:,}.",
        fix="Send less of it; a job's data belongs in files that `env` or `command` name.",
    )


MAX_WITHIN_S = 30 * 86_400
NOTICE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["reason"],
    "properties": {
        **REASON_SCHEMA["properties"],
        "within_s": {"type": ["number", "null"], "minimum": 1, "maximum": MAX_WITHIN_S},
    },
}


async def read_notice(request: Request) -> tuple[str, float | None]:
    """The `reason` of a notice, and in how many seconds at the latest. Raises `BadDocument`."""
    body = await read_json(request)
    reason = checked_reason(body.get("reason") if isinstance(body, dict) else None)
    return reason, checked_within(body.get("within_s"))


def checked_within(within_s: Any) -> float | None:
    """The time of a notice, if it is one; None where there is none. Raises `BadDocument`."""
    number = isinstance(within_s, int | float) and not isinstance(within_s, bool)
    if within_s is None:
        return None
    if number and 1 <= within_s <= MAX_WITHIN_S:
        return float(within_s)
    raise BadDocument(
        [
            Mistake(
                field="within_s",
                value=shown(within_s),
                why="it says in how many seconds the node has to be free.",
                fix=f"Send a number from 1 to {MAX_WITHIN_S:,}, or leave it out.",
            )
        ]
    )


async def read_reason(request: Request) -> str:
    """The `reason` of a request about a node, for the journal. Raises `BadDocument`."""
    body = await read_json(request)
    return checked_reason(body.get("reason") if isinstance(body, dict) else None)


def checked_reason(reason: Any) -> str:
    """The reason, if it is one. Raises `BadDocument`."""
    if isinstance(reason, str) and 0 < len(reason) <= MAX_REASON_CHARACTERS and is_whole(reason):
        return reason
    raise BadDocument(
        [
            Mistake(
                field="reason",
                value="" if reason is None else shown(reason),
                why="a reason is kept with the node, for whoever asks why.",
                fix=f"Send a sentence of at most {MAX_REASON_CHARACTERS} characters as `reason`.",
            )
        ]
    )


def is_whole(text: str) -> bool:
    """JSON may have half of a character (`\\udcff`), which nothing can write down."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

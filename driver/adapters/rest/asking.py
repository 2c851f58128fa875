"""Puts a person's request to the core and answers with the entry that it became.

Used by the routers that change something.
"""

import hashlib
import json
from typing import Annotated, Any

from fastapi import Header
from pydantic import Field

from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.batch.inbox import KeyReused, NotAccepting, Refused
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.people.admission import DEFECT, Refusal
from holdfast.driver.people.control import Control
from holdfast.driver.people.story import about
from holdfast.driver.ports import Key
from holdfast.protocol.mistakes import Mistake

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key with the same body is done once and answered the same again.",
    ),
]


class Done(View):
    """A request that was taken: it is in the journal."""

    name: str
    """Of the job or node it is about."""
    sequence: int = Field(ge=0)
    """The journal entry that it became."""
    why: str
    """What was decided, in a sentence."""


def key_of(key: str | None, *what: Any) -> Key | None:
    """The key with the digest of all that makes the request what it is."""
    if key is None:
        return None
    data = json.dumps(what, sort_keys=True).encode()
    return Key(key=key, digest=hashlib.sha256(data).digest())


def refused(name: str, refusal: Refusal) -> Problem:
    """404, 409, or 500 where it is our fault: the core's refusal, `FIELD: WHY. FIX` as it says it,
    also in parts.
    """
    field, _, rest = refusal.sentence.partition(": ")
    why, _, fix = rest.partition(". ")
    status = 404 if refusal.code.startswith("unknown-") else 409
    status = 500 if refusal.code == DEFECT else status
    mistake = Mistake(field=field, value=refusal.value or name, why=f"{why.rstrip('.')}.", fix=fix)
    return Problem(status, refusal.sentence, errors=[mistake])


def key_reused(why: str) -> Problem:
    return Problem(422, why, fix="Use a new Idempotency-Key for another request.")


def not_accepting(why: str) -> Problem:
    return Problem(503, why, fix="Try again later.")


async def ask(control: Control, name: str, event: AnyEvent, *, key: Key | None = None) -> Done:
    """Raises `Problem`: 404, 409, 500 (see `refused`), 422 (key reused), 503 (no new work)."""
    node = control.state.nodes.get(name)
    holder = (node.job if node is not None else None) or name
    try:
        entry = await control.request(event, key=key)
    except Refused as error:
        raise refused(name, error.refusal) from error
    except KeyReused as error:
        raise key_reused(str(error)) from error
    except NotAccepting as error:
        raise not_accepting(str(error)) from error
    why = about({name, holder}, entry.why, entry.jobs)
    return Done(name=name, sequence=entry.sequence, why=why)

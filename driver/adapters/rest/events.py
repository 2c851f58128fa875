"""The journal as server-sent events: every entry, or those of one job, without a gap.

Format: HTML Living Standard, 9.2. `id` is the entry's sequence, so that a reader that lost its
connection goes on with Last-Event-ID.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from holdfast.driver.adapters.rest.guard import PREFIX, person
from holdfast.driver.adapters.rest.pages import Pages
from holdfast.driver.adapters.rest.parameters import AfterSequence, JobParameter
from holdfast.driver.ports import Entry, TemporaryError

router = APIRouter(prefix=PREFIX, tags=["events"], dependencies=[Depends(person)])

READ_AGAIN_S = 1.0
"""Until a journal that did not answer is read again."""


class EventParameters(JobParameter):
    """Of the stream of events."""

    after: AfterSequence = Field(default=0, description="Begin after this sequence.")


@router.get("/events", response_class=StreamingResponse)
async def events(
    request: Request,
    asked: Annotated[EventParameters, Query()],
    last_event_id: Annotated[AfterSequence | None, Header()] = None,
) -> StreamingResponse:
    """Entries from the beginning, or from after the last one seen, then each as it comes."""
    begin = asked.after if last_event_id is None else last_event_id
    return StreamingResponse(
        _stream(request.app.state.pages, job=asked.job, after=begin),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(pages: Pages, *, job: str | None, after: int) -> AsyncIterator[bytes]:
    yield b": the journal\n\n"
    while True:
        try:
            page = await pages.following(after)
        except TemporaryError:  # `accepting` says so; who reads goes on where he is
            await asyncio.sleep(READ_AGAIN_S)
            continue
        if data := page.of(job):
            yield data
        elif page.last == after:
            yield b": still here\n\n"
        after = page.last


def written(entry: Entry) -> bytes:
    """One entry as an event: id, kind, and JSON on one line."""
    kind = type(entry.event).__name__
    data = msgspec.json.encode(entry_view(entry))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.sequence, kind.encode(), data)


def entry_view(entry: Entry) -> dict[str, Any]:
    """An entry as people get it: the whole event, but of effects only what they are."""
    return {
        "sequence": entry.sequence,
        "at": entry.at,
        "now_s": entry.now,
        "kind": type(entry.event).__name__,
        "why": entry.why,
        "jobs": entry.jobs,
        "nodes": entry.nodes,
        "incident": entry.incident,
        "cause": entry.event.cause,
        "effects": [type(effect).__name__ for effect in entry.effects],
        "event": _unfenced(msgspec.to_builtins(entry.event, str_keys=True)),
    }


def _unfenced(told: Any) -> Any:
    """Without the numbers by which nodes refuse older orders: nobody else can tell what they are
    of, and to a reader of training code an epoch is something else.
    """
    if isinstance(told, Mapping):
        return {key: _unfenced(value) for key, value in told.items() if key != "epoch"}
    return [_unfenced(each) for each in told] if isinstance(told, list) else told

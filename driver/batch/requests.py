"""People's requests in a batch: done once a key, admitted or refused, answered after the commit.

Used by `driver.loop`. Who asks sees `Refused`, `KeyReused` or `NotAccepting`, and then nothing has
changed.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.driver.batch.inbox import Item
from holdfast.driver.core.events import JobSubmitted
from holdfast.driver.journal.draft import Defect, Draft
from holdfast.driver.people.admission import Refusal, of_defect
from holdfast.driver.ports import Claim, Entry, Journal, Key


class Refused(Exception):
    """The core will not have the request as it is. Nothing has changed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class KeyReused(Exception):
    """The Idempotency-Key was used for another request. Nothing has changed."""


class NotAccepting(Exception):
    """No such request is accepted now; the message says why. Nothing has changed."""


class Earlier(NamedTuple):
    """A key that was used, and the entry of its request."""

    claim: Claim
    entry: Entry


async def earlier_requests(journal: Journal, batch: Sequence[Item]) -> dict[str, Earlier]:
    """Those of earlier days with a key of this batch, which the journal alone knows.

    Raises `TemporaryError` where it does not answer.
    """
    keys = {item.key.key for item in batch if item.key is not None}
    if not keys:
        return {}
    found = await asyncio.to_thread(lambda: [_earlier(journal, key) for key in keys])
    return {each.claim.key.key: each for each in found if each is not None}


def _earlier(journal: Journal, key: str) -> Earlier | None:
    claim = journal.claim(key)
    if claim is None:
        return None
    return Earlier(claim, journal.entries(after=claim.sequence - 1, limit=1)[0])


def put(
    item: Item, draft: Draft, journal: Journal, earlier: dict[str, Earlier]
) -> Entry | Exception | None:
    """Add to the draft; the entry of a request, or why it must not be."""
    if item.reply is None:
        draft.add(item.event)
        return None
    if item.reply.done():
        return None  # whoever asked has gone
    try:
        return _first(item.key, draft, earlier) or _admitted(item, draft, journal)
    except (Refused, KeyReused, NotAccepting) as error:
        return error


def _admitted(item: Item, draft: Draft, journal: Journal) -> Entry:
    """Raises `Refused` or `NotAccepting`, with the draft as it was."""
    if isinstance(item.event, JobSubmitted) and (why := journal.shortage()):
        raise NotAccepting(why)
    try:
        if refusal := draft.refusal(item.event):
            raise Refused(refusal)
        return draft.add_request(item.event, item.key)
    except Defect as defect:
        raise Refused(of_defect(item.event, str(defect))) from defect


def _first(key: Key | None, draft: Draft, earlier: dict[str, Earlier]) -> Entry | None:
    """The entry of the same request when it came before. Raises `KeyReused`."""
    if key is None:
        return None
    entries = {each.sequence: each for each in draft.entries}
    drafted = {each.key.key: Earlier(each, entries[each.sequence]) for each in draft.claims}
    found = drafted.get(key.key) or earlier.get(key.key)
    if found is None:
        return None
    if found.claim.key.digest != key.digest:
        raise KeyReused(
            f"Idempotency-Key: {key.key!r} was used for another request. Use a new key."
        )
    return found.entry


def refuse(batch: Sequence[Item], put: Sequence[Entry | Exception | None]) -> None:
    """Tell who asked for what must not be."""
    for item, each in zip(batch, put, strict=True):
        if isinstance(each, Exception) and item.reply is not None and not item.reply.done():
            item.reply.set_exception(each)


def answer(batch: Sequence[Item], put: Sequence[Entry | Exception | None]) -> None:
    """Give who asked his entry; and nothing can be lost any more: who told us of it may forget."""
    for item, each in zip(batch, put, strict=True):
        if isinstance(each, Entry) and item.reply is not None and not item.reply.done():
            item.reply.set_result(each)
    for item in batch:
        if item.done is not None:
            item.done()


def without_requests(batch: Sequence[Item], why: str) -> list[Item]:
    """What happened stays; people are told that what they asked for was not done."""
    for item in batch:
        if item.reply is not None and not item.reply.done():
            item.reply.set_exception(NotAccepting(why))
    return [item for item in batch if item.reply is None]

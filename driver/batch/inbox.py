"""What waits to be decided, in the order in which it came: events, people's requests, ticks; and
how people are answered.

Filled and emptied by `driver.loop`. A tick stands behind all that was queued when it fell due, and
before all of it stands what was lost, where this driver stood still. Requests are done once a key,
admitted or refused, and answered after the commit: who asks sees `Refused`, `KeyReused` or
`NotAccepting`, and then nothing has changed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.driver.batch.deadlines import Deadlines
from holdfast.driver.core.events import AnyEvent, JobSubmitted, Stalled, Ticked
from holdfast.driver.journal.draft import Defect, Draft
from holdfast.driver.people.admission import Refusal, of_defect
from holdfast.driver.ports import Claim, Entry, Journal, Key
from holdfast.kit.clock import LOOK_S, Looks

MAX_BATCH = 256
"""Events decided and committed together: bounds how long the first of them waits, by some 20 ms of
deciding. A commit looks along all nodes once, so that smaller ones cost more each with more nodes.
"""

LEAST_TICK_S = 0.02
"""Between two ticks: a deadline that a defect leaves in the state must not spin."""

LONGEST_REST_S = 60.0
"""After a tick that left it there again and again."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to the core; `reply` where a person waits for it.

    `done` is called once what the event led to is in the journal, or it has led to nothing.
    """

    event: AnyEvent
    done: Callable[[], None] | None = None
    reply: asyncio.Future[Entry] | None = None
    key: Key | None = None


class Inbox:
    """Of one loop. `now`: its driver time, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._queue: asyncio.Queue[Item] = asyncio.Queue()
        self._looks = Looks(now())
        self._ticked = float("-inf")
        self._tick_queued = False
        self._left_due = 0

    def put(self, item: Item) -> None:
        self._queue.put_nowait(item)

    def qsize(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    def open(self) -> None:
        """What passed until now is no standstill."""
        self._looks = Looks(self._now())

    async def batch(self, deadlines: Deadlines) -> list[Item]:
        """What is queued, waiting for the first, or a tick where a deadline has passed."""
        due = deadlines.next_s()
        if due is not None:
            due = max(due, self._ticked + self._rest_s(due))
        batch: list[Item] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_until(due, self._now())):
                batch.append(await self._queue.get())
        if stood_s := self._looks.look(self._now()):
            batch.insert(0, Item(event=Stalled(stood_s=stood_s)))
        elif due is not None and self._now() >= due and not self._tick_queued:
            self._tick_queued = True
            self._queue.put_nowait(Item(event=Ticked()))
        while len(batch) < MAX_BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        self._note_tick(batch)
        return batch

    def _rest_s(self, due: float) -> float:
        """After a tick: twice as long each time that it left in the state what was due."""
        if due > self._ticked:
            self._left_due = 0
        return min(LONGEST_REST_S, LEAST_TICK_S * (1 << min(self._left_due, 16)))

    def _note_tick(self, batch: list[Item]) -> None:
        if any(isinstance(item.event, Ticked) for item in batch):
            self._ticked, self._tick_queued = self._now(), False
            self._left_due += 1  # until what is due next shows that nothing was left


def _until(due: float | None, now: float) -> float:
    """Seconds to `due`, or to the next look where that comes first."""
    return LOOK_S if due is None else min(LOOK_S, max(0.0, due - now))


# ---------------------------------------------------------------- people's requests


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

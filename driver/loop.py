"""The driver loop: event -> decide -> journal -> effects -> their outcome is the next event.

Run by `driver.main`, fed by sessions, detectors, the effect runner and people's requests. One task,
one writer. Must not act before what it decided is in the journal.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import msgspec
import structlog

from holdfast.driver.core.admission import Refusal, refuse
from holdfast.driver.core.deadlines import next_deadline
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.encode import decode, encode
from holdfast.driver.core.events import AnyEvent, DriverStarted, JobSubmitted, Ticked
from holdfast.driver.core.model import State
from holdfast.driver.core.policy import Policy
from holdfast.driver.draft import Draft
from holdfast.driver.ports import Entry, Journal, Key, TemporaryError
from holdfast.kit.clock import Clock

MAX_BATCH = 64
"""Events decided and committed together: bounds how long the first of them waits."""

LEAST_TICK_S = 0.02
"""Between two ticks: a deadline that a defect leaves in the state must not spin."""

COMMIT_AGAIN_S = 0.5
"""Until a commit that failed is tried again; what waits for it is not started."""

_log = structlog.get_logger()


class Refused(Exception):
    """The core will not have the request as it is. Nothing has changed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class KeyReused(Exception):
    """The Idempotency-Key was used for another request. Nothing has changed."""


class NotAccepting(Exception):
    """No such request is accepted now; the message says why. Nothing has changed."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to the core; `reply` where a person waits for it."""

    event: AnyEvent
    reply: asyncio.Future[Entry] | None = None
    key: Key | None = None


class Loop:
    """Owns the state. Made, then `start`, then `run` until cancelled."""

    def __init__(self, journal: Journal, *, clock: Clock, policy: Policy) -> None:
        self._journal = journal
        self._clock = clock
        self._policy = policy
        self._queue: asyncio.Queue[Item] = asyncio.Queue()
        self._bell = asyncio.Event()
        self._trouble: str | None = None  # why nothing can be committed
        self._ticked = float("-inf")
        encoded, self.sequence, committed_now = journal.load()
        self.state = State() if encoded is None else decode(encoded)
        self._since_s = committed_now - clock.monotonic_s()
        self._perform: Callable[[AnyEffect], None]
        self._follow: Callable[[State], None]

    # ------------------------------------------------------------ for everybody

    def now(self) -> float:
        """Driver time in seconds: goes on from the newest entry of the driver before."""
        return self._since_s + self._clock.monotonic_s()

    @property
    def accepting(self) -> str | None:
        """None while new work is accepted, else why not."""
        return self._trouble or self._journal.shortage()

    def post(self, event: AnyEvent) -> None:
        """Have the core told, soon and in order."""
        self._queue.put_nowait(Item(event=event))

    async def request(self, event: AnyEvent, *, key: Key | None = None) -> Entry:
        """See `Control.request`."""
        reply: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Item(event=event, reply=reply, key=key))
        return await reply

    async def committed_beyond(self, sequence: int) -> None:
        """Return once an entry later than `sequence` is in the journal."""
        while self.sequence <= sequence:
            await self._bell.wait()

    # ------------------------------------------------------------ its life

    async def start(
        self, *, perform: Callable[[AnyEffect], None], follow: Callable[[State], None]
    ) -> None:
        """Take over, with a new term; the core orders anew what earlier terms did not see ended.

        `perform` begins an effect, `follow` is shown each committed state.
        """
        self._perform, self._follow = perform, follow
        await self._work([Item(event=DriverStarted(term=self.state.term + 1))])

    async def run(self) -> None:
        """Work until cancelled. Raises `PermanentError` once another driver has taken over."""
        while True:
            await self._work(await self._batch())

    async def _batch(self) -> list[Item]:
        """What is queued, waiting for the first, and a tick where a deadline has passed."""
        due = next_deadline(self.state)
        if due is not None:
            due = max(due, self._ticked + LEAST_TICK_S)
        batch: list[Item] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if due is None else max(0.0, due - self.now())):
                batch.append(await self._queue.get())
        while len(batch) < MAX_BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        if due is not None and self.now() >= due:
            self._ticked = self.now()
            batch.append(Item(event=Ticked()))
        return batch

    async def _work(self, batch: Sequence[Item]) -> None:
        """Decide the batch and commit it as one; where that fails, again, without the requests."""
        while batch:
            at = self._clock.wall().isoformat()
            draft = Draft(state=self.state, now=self.now(), at=at, policy=self._policy)
            replies = [(item.reply, entry) for item in batch if (entry := self._put(item, draft))]
            if await self._commit(draft):
                for reply, entry in replies:
                    _answer(reply, entry)
                return
            batch = _without_requests(batch, self._trouble or "")
            await asyncio.sleep(COMMIT_AGAIN_S)
        self._trouble = None  # nothing waits to be committed

    async def _commit(self, draft: Draft) -> bool:
        """Make the draft true, then act on it. False: nothing was written, and nothing done."""
        if not draft.entries:
            return True
        try:
            state = encode(draft.state)
            await self._journal.commit(draft.entries, state, claims=draft.claims)
        except TemporaryError as error:
            self._trouble = str(error)
            _log.error("journal.failed", why=self._trouble)
            return False
        self._committed(draft)
        return True

    def _put(self, item: Item, draft: Draft) -> Entry | None:
        """Add to the draft, unless it is a request that must not be; the entry of a request."""
        if item.reply is None:
            draft.add(item.event)
            return None
        if item.reply.done():
            return None  # whoever asked has gone
        try:
            return self._first(item.key, draft) or self._admitted(item, draft)
        except (Refused, KeyReused, NotAccepting) as error:
            item.reply.set_exception(error)
            return None

    def _first(self, key: Key | None, draft: Draft) -> Entry | None:
        """The entry of the same request when it came before. Raises `KeyReused`."""
        if key is None:
            return None
        drafted = (each for each in draft.claims if each.key.key == key.key)
        claim = next(drafted, None) or self._journal.claim(key.key)
        if claim is None:
            return None
        if claim.key.digest != key.digest:
            raise KeyReused(
                f"Idempotency-Key: {key.key!r} was used for another request. Use a new key."
            )
        if claim.sequence > self.sequence:
            return next(each for each in draft.entries if each.sequence == claim.sequence)
        return self._journal.entries(after=claim.sequence - 1, limit=1)[0]

    def _admitted(self, item: Item, draft: Draft) -> Entry:
        """Raises `Refused` or `NotAccepting`, with the draft as it was."""
        if isinstance(item.event, JobSubmitted) and (why := self._journal.shortage()):
            raise NotAccepting(why)
        if refusal := refuse(draft.state, item.event):
            raise Refused(refusal)
        return draft.add_request(item.event, item.key)

    def _committed(self, draft: Draft) -> None:
        """From here on it is true: show it, then do what it orders."""
        self._trouble = None
        self.state, self.sequence = draft.state, draft.state.sequence
        self._follow(self.state)
        for entry in draft.entries:
            _log.info("decided", sequence=entry.sequence, why=entry.why, jobs=entry.jobs)
            for effect in entry.effects:
                self._perform(effect)
        self._bell.set()
        self._bell = asyncio.Event()


def _answer(reply: asyncio.Future[Entry] | None, entry: Entry) -> None:
    if reply is not None and not reply.done():
        reply.set_result(entry)


def _without_requests(batch: Sequence[Item], why: str) -> list[Item]:
    """What happened stays; people are told that what they asked for was not done."""
    for item in batch:
        if item.reply is not None and not item.reply.done():
            item.reply.set_exception(NotAccepting(why))
    return [item for item in batch if item.reply is None]

"""The driver loop: event -> decide -> journal -> effects -> their outcome is the next event.

Run by `driver.main`, fed by sessions, detectors, the effect runner and people's requests. One task,
one writer. Must not act before what it decided is in the journal.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import structlog

from holdfast.driver.core.codec.encode import UnreadableState, decode, settled
from holdfast.driver.core.deadlines import Deadlines
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import (
    AnyEvent,
    DriverStarted,
    ExecutorConnected,
    JobSubmitted,
    Stalled,
    Ticked,
)
from holdfast.driver.core.handlers.admission import Refusal, of_defect
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.follow.running_clock import LOOK_S, Looks
from holdfast.driver.journal.deltas import Deltas
from holdfast.driver.journal.draft import Defect, Draft
from holdfast.driver.journal.rank_tables import RankTables
from holdfast.driver.ports import (
    Claim,
    Entry,
    InDoubt,
    Journal,
    Key,
    PermanentError,
    TakenOver,
    TemporaryError,
)
from holdfast.kit.clock import Clock

MAX_BATCH = 256
"""Events decided and committed together: bounds how long the first of them waits, by some 20 ms of
deciding. A commit looks along all nodes once, so that smaller ones cost more each with more nodes.
"""

MANY_NODES = 1_000
"""From so many on a batch is decided on a thread, while this one hears nodes and people: to end the
ranks of 12,500 took .3 s here, those of 1,000 took 30 ms."""

EFFECTS_AT_ONCE = 500
"""Begun before whoever else has something to do has his turn."""

LEAST_TICK_S = 0.02
"""Between two ticks: a deadline that a defect leaves in the state must not spin."""

LONGEST_REST_S = 60.0
"""After a tick that left it there again and again."""

COMMIT_AGAIN_S = 0.5
"""Until a commit that failed is tried again; what waits for it is not started."""

TERM_CHECK_S = 1.0
"""Between two looks whether the term is still ours: a driver that was stopped and is woken after
another has taken over ends within so much, whether it has anything to write or not."""

ANSWER_S = CERTAIN_S = 3.0
"""Of the journal without an answer, until it is said that it is away; and how old the last look
that found the term ours may be when something outside is changed, which then waits. Another driver
takes a Lease no sooner than twice that after its holder was last heard."""

_log = structlog.get_logger()

_Done = TypeVar("_Done")


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
    """An event on its way to the core; `reply` where a person waits for it.

    `done` is called once what the event led to is in the journal, or it has led to nothing.
    """

    event: AnyEvent
    done: Callable[[], None] | None = None
    reply: asyncio.Future[Entry] | None = None
    key: Key | None = None


_Earlier = tuple[Claim, Entry]
"""A key that was used, and the entry of its request."""


class Loop:
    """Owns the state. Made, which takes the term; then `start`, then `run` until cancelled."""

    def __init__(self, journal: Journal, *, clock: Clock, policy: Policy) -> None:
        self._journal = journal
        self._clock = clock
        self._policy = policy
        self._rank_tables = RankTables()
        self._deltas = Deltas()
        self._queue: asyncio.Queue[Item] = asyncio.Queue()
        self._bell = asyncio.Event()
        self._trouble: str | None = None  # why nothing can be committed
        self._away: str | None = None  # why nobody knows whether the term is still ours
        self._ticked = float("-inf")
        self._tick_queued = False
        self._left_due = 0
        self._ours_s = float("-inf")  # when the last look began that found the term ours
        self._looked = asyncio.Event()
        taken = journal.take_over()
        self._term, self.sequence = taken.term, taken.sequence
        self._followed = 0  # the latest term that any executor has followed of another driver
        self.state = _state_of(taken.state)
        self._deadlines = Deadlines(self.state)
        self._since_s = taken.now - clock.monotonic_s()
        self._looks = Looks(self.now())
        self._perform: Callable[[AnyEffect], None]
        self._follow: Callable[[State], None]

    # ------------------------------------------------------------ for everybody

    def now(self) -> float:
        """Driver time in seconds: goes on from the newest entry of the driver before."""
        return self._since_s + self._clock.monotonic_s()

    @property
    def accepting(self) -> str | None:
        """None while new work is accepted, else why not."""
        return self._trouble or self._away or self._journal.shortage()

    @property
    def stale(self) -> bool:
        """Whether nothing can be written down now, so that the state may be behind what happens."""
        return bool(self._trouble or self._away)

    def post(self, event: AnyEvent, done: Callable[[], None] | None = None) -> None:
        """Have the core told, soon and in order; `done` as in `Item`."""
        if isinstance(event, ExecutorConnected):
            self._followed = max(self._followed, event.term)
        self._queue.put_nowait(Item(event=event, done=done))

    async def request(self, event: AnyEvent, *, key: Key | None = None) -> Entry:
        """See `Control.request`."""
        if why := self._trouble or self._away:
            raise NotAccepting(why)
        reply: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Item(event=event, reply=reply, key=key))
        return await reply

    async def committed_beyond(self, sequence: int) -> None:
        """Return once an entry later than `sequence` is in the journal."""
        while self.sequence <= sequence:
            await self._bell.wait()

    async def certain(self) -> None:
        """Return once the term was ours a moment ago; where it is another's now, never: this driver
        ends then.

        For who is about to change what is outside, on a decision that may be old: a process that is
        stopped and woken knows nothing of the time between.
        """
        while asyncio.get_running_loop().time() - self._ours_s > CERTAIN_S:
            await self._looked.wait()

    # ------------------------------------------------------------ its life

    async def start(
        self, *, perform: Callable[[AnyEffect], None], follow: Callable[[State], None]
    ) -> None:
        """Begin the term; the core orders anew what earlier terms did not see ended.

        `perform` begins an effect, `follow` is shown each committed state.
        """
        self._perform, self._follow = perform, follow
        await self._work([Item(event=DriverStarted(term=self._term))])

    async def run(self) -> None:
        """Work until cancelled. Raises `PermanentError` once another driver has taken over."""
        self._looks = Looks(self.now())
        while True:
            await self._work(await self._batch())

    async def keep_term(self, *, step_down_s: float = math.inf) -> None:
        """Look at the term until cancelled.

        Raises `TakenOver` once it is another's, and once it may be: the journal has not answered
        for `step_down_s`.
        """
        now_s = asyncio.get_running_loop().time
        answered_s, began_s, look = now_s(), now_s(), self._look_at_term()
        try:
            while (left_s := answered_s + step_down_s - now_s()) > 0:
                self._away = await _unanswered(look, within_s=min(ANSWER_S, left_s))
                if self._away is None:
                    answered_s = now_s()
                    self._found_ours(began_s)
                if look.done():
                    await asyncio.sleep(TERM_CHECK_S)
                    began_s, look = now_s(), self._look_at_term()
        finally:
            look.cancel()  # where it still hangs, its answer comes too late, and is nobody's
        raise TakenOver(
            f"this driver has stopped, for another may lead since {step_down_s:.0f} s "
            f"({self._away or 'it was stopped meanwhile'})"
        )

    def _found_ours(self, at_s: float) -> None:
        self._ours_s = at_s
        self._looked.set()
        self._looked = asyncio.Event()

    def _look_at_term(self) -> asyncio.Task[None]:
        """A look under way. Its error, as of `Journal.check_term`, is for who awaits it."""
        return asyncio.ensure_future(asyncio.to_thread(self._check_term))

    def _check_term(self) -> None:
        self._journal.check_term()
        if self._followed >= self._term:
            self._journal.pass_over(self._followed)

    async def _batch(self) -> list[Item]:
        """What is queued, waiting for the first, or a tick where a deadline has passed: behind all
        that was queued by then. Before all of it what is lost, where this driver stood still.
        """
        due = self._deadlines.next_s()
        if due is not None:
            due = max(due, self._ticked + self._rest_s(due))
        batch: list[Item] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_until(due, self.now())):
                batch.append(await self._queue.get())
        if stood_s := self._looks.look(self.now()):
            batch.insert(0, Item(event=Stalled(stood_s=stood_s)))
        elif due is not None and self.now() >= due and not self._tick_queued:
            self._tick_queued = True
            self._queue.put_nowait(Item(event=Ticked()))
        while len(batch) < MAX_BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        if any(isinstance(item.event, Ticked) for item in batch):
            self._ticked, self._tick_queued = self.now(), False
            self._left_due += 1  # until what is due next shows that nothing was left
        return batch

    def _rest_s(self, due: float) -> float:
        """After a tick: twice as long each time that it left in the state what was due."""
        if due > self._ticked:
            self._left_due = 0
        return min(LONGEST_REST_S, LEAST_TICK_S * (1 << min(self._left_due, 16)))

    async def _work(self, batch: Sequence[Item]) -> None:
        """Decide the batch and commit it as one; where that fails, again, without the requests."""
        batch, earlier = await self._known(batch)
        while batch:
            at = self._clock.wall().isoformat()
            draft = Draft(
                state=self.state,
                now=self.now(),
                at=at,
                policy=self._policy,
                rank_tables=self._rank_tables,
            )
            replies = await self._decided(batch, draft, earlier)
            if await self._commit(draft):
                for reply, entry in replies:
                    _answer(reply, entry)
                _say_done(batch)
                return
            batch = _without_requests(batch, self._trouble or "")
            await asyncio.sleep(COMMIT_AGAIN_S)
        self._trouble = None  # nothing waits to be committed

    async def _decided(
        self, batch: Sequence[Item], draft: Draft, earlier: dict[str, _Earlier]
    ) -> list[tuple[asyncio.Future[Entry], Entry]]:
        """Have the draft decided. Requests that cannot be are refused; the others, each with its
        entry, are answered after the commit."""
        put = await self._beside(lambda: [self._put(item, draft, earlier) for item in batch])
        found = [(item.reply, each) for item, each in zip(batch, put, strict=True)]
        for reply, each in found:
            if isinstance(each, Exception) and reply is not None and not reply.done():
                reply.set_exception(each)
        return [(reply, each) for reply, each in found if reply and isinstance(each, Entry)]

    async def _beside(self, work: Callable[[], _Done]) -> _Done:
        """On a thread where it may take long. What it reads is frozen, and what it writes its own:
        this task alone changes the state, and waits for it."""
        if len(self.state.nodes) < MANY_NODES:
            return work()
        return await asyncio.to_thread(work)

    async def _commit(self, draft: Draft) -> bool:
        """Make the draft true, then act on it. False: nothing was written, and nothing done.

        A draft that may be written already is tried until that is known: who asked waits, for
        neither yes nor no would be true.
        """
        if not draft.entries:
            self._trouble = None  # nothing waits to be committed
            return True
        state, change = await self._beside(lambda: self._deltas.of(self.state, draft.state))
        draft.state = settled(draft.state)
        in_doubt = False
        while True:
            try:
                await self._journal.commit(draft.entries, state, change=change, claims=draft.claims)
            except TemporaryError as error:
                self._in_trouble(str(error))
                in_doubt = in_doubt or isinstance(error, InDoubt)
                if not in_doubt:
                    return False
                await asyncio.sleep(COMMIT_AGAIN_S)
            else:
                self._deltas.done(state, change=change)
                await self._committed(draft)
                return True

    def _in_trouble(self, why: str) -> None:
        if why != self._trouble:
            _log.error("journal.failed", why=why)
        self._trouble = why

    async def _known(self, batch: Sequence[Item]) -> tuple[Sequence[Item], dict[str, _Earlier]]:
        """The requests of earlier days with a key of this batch, which the journal alone knows.

        Where it does not answer, the batch without requests.
        """
        keys = {item.key.key for item in batch if item.key is not None}
        if not keys:
            return batch, {}
        try:
            found = await asyncio.to_thread(lambda: [self._earlier(key) for key in keys])
        except TemporaryError as error:
            self._in_trouble(str(error))
            return _without_requests(batch, str(error)), {}
        return batch, {each[0].key.key: each for each in found if each is not None}

    def _earlier(self, key: str) -> _Earlier | None:
        claim = self._journal.claim(key)
        if claim is None:
            return None
        return claim, self._journal.entries(after=claim.sequence - 1, limit=1)[0]

    def _put(
        self, item: Item, draft: Draft, earlier: dict[str, _Earlier]
    ) -> Entry | Exception | None:
        """Add to the draft; the entry of a request, or why it must not be."""
        if item.reply is None:
            draft.add(item.event)
            return None
        if item.reply.done():
            return None  # whoever asked has gone
        try:
            return _first(item.key, draft, earlier) or self._admitted(item, draft)
        except (Refused, KeyReused, NotAccepting) as error:
            return error

    def _admitted(self, item: Item, draft: Draft) -> Entry:
        """Raises `Refused` or `NotAccepting`, with the draft as it was."""
        if isinstance(item.event, JobSubmitted) and (why := self._journal.shortage()):
            raise NotAccepting(why)
        try:
            if refusal := draft.refusal(item.event):
                raise Refused(refusal)
            return draft.add_request(item.event, item.key)
        except Defect as defect:
            raise Refused(of_defect(item.event, str(defect))) from defect

    async def _committed(self, draft: Draft) -> None:
        """From here on it is true: show it, then do what it orders."""
        self._trouble = None
        self.state, self.sequence = draft.state, draft.state.sequence
        for entry in draft.entries:
            self._deadlines.follow(self.state, entry.jobs, entry.nodes)
        self._follow(self.state)
        await self._act(draft.entries)
        self._bell.set()
        self._bell = asyncio.Event()

    async def _act(self, entries: Sequence[Entry]) -> None:
        begun = 0
        for entry in entries:
            _log.info("decided", sequence=entry.sequence, why=entry.why, jobs=entry.jobs)
            for effect in entry.effects:
                self._perform(effect)
                begun += 1
                if begun % EFFECTS_AT_ONCE == 0:
                    await asyncio.sleep(0)


async def _unanswered(look: asyncio.Task[None], *, within_s: float) -> str | None:
    """Why nobody knows whether the term is still ours; None once the journal has said that it is.

    Raises what the look raises, but for `TemporaryError`.
    """
    if not (await asyncio.wait({look}, timeout=within_s))[0]:
        return f"the journal has not answered for {ANSWER_S:.0f} s. Running jobs go on."
    try:
        look.result()
    except TemporaryError as error:
        return str(error)
    return None


def _state_of(encoded: bytes | None) -> State:
    """Raises `PermanentError` where it cannot be read."""
    try:
        return State() if encoded is None else decode(encoded)
    except UnreadableState as error:
        raise PermanentError(str(error)) from error


def _until(due: float | None, now: float) -> float:
    """Seconds to `due`, or to the next look where that comes first."""
    return LOOK_S if due is None else min(LOOK_S, max(0.0, due - now))


def _first(key: Key | None, draft: Draft, earlier: dict[str, _Earlier]) -> Entry | None:
    """The entry of the same request when it came before. Raises `KeyReused`."""
    if key is None:
        return None
    entries = {each.sequence: each for each in draft.entries}
    drafted = {each.key.key: (each, entries[each.sequence]) for each in draft.claims}
    found = drafted.get(key.key) or earlier.get(key.key)
    if found is None:
        return None
    claim, entry = found
    if claim.key.digest != key.digest:
        raise KeyReused(
            f"Idempotency-Key: {key.key!r} was used for another request. Use a new key."
        )
    return entry


def _answer(reply: asyncio.Future[Entry], entry: Entry) -> None:
    if not reply.done():
        reply.set_result(entry)


def _say_done(batch: Sequence[Item]) -> None:
    """Nothing of it can be lost any more: who told us of it may forget it."""
    for item in batch:
        if item.done is not None:
            item.done()


def _without_requests(batch: Sequence[Item], why: str) -> list[Item]:
    """What happened stays; people are told that what they asked for was not done."""
    for item in batch:
        if item.reply is not None and not item.reply.done():
            item.reply.set_exception(NotAccepting(why))
    return [item for item in batch if item.reply is None]

"""The driver loop: event -> decide -> journal -> effects -> their outcome is the next event.

Run by `driver.main`, fed by sessions, detectors, the effect runner and people's requests. One task,
one writer. Must not act before what it decided is in the journal.
"""

import asyncio
from collections.abc import Callable, Sequence

from holdfast.driver.batch.commit import Commits, beside
from holdfast.driver.batch.deadlines import Deadlines
from holdfast.driver.batch.inbox import (
    Earlier,
    Inbox,
    Item,
    NotAccepting,
    answer,
    earlier_requests,
    put,
    refuse,
    without_requests,
)
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import AnyEvent, DriverStarted, ExecutorConnected
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import UnreadableState, decode
from holdfast.driver.journal.draft import Draft, RankTables
from holdfast.driver.lead.term import Term
from holdfast.driver.ports import Entry, Journal, Key, PermanentError, TemporaryError
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger

EFFECTS_AT_ONCE = 500
"""Begun before whoever else has something to do has his turn."""

_log = LazyLogger()


class Loop:
    """Owns the state. Made, which takes the term; then `start`, then `run` until cancelled."""

    def __init__(self, journal: Journal, *, clock: Clock, policy: Policy) -> None:
        self._journal = journal
        self._clock = clock
        self._policy = policy
        self._rank_tables = RankTables()
        self._census = Census()
        self._commits = Commits(journal)
        self._bell = asyncio.Event()
        taken = journal.take_over()
        self.term, self.sequence = Term(journal, taken.term), taken.sequence
        self.state = _state_of(taken.state)
        self._deadlines = Deadlines(self.state)
        self._since_s = taken.now - clock.monotonic_s()
        self._queue = Inbox(self.now)
        self._perform: Callable[[AnyEffect], None]
        self._follow: Callable[[State], None]

    # ------------------------------------------------------------ for everybody

    def now(self) -> float:
        """Driver time in seconds: goes on from the newest entry of the driver before."""
        return self._since_s + self._clock.monotonic_s()

    @property
    def accepting(self) -> str | None:
        """None while new work is accepted, else why not."""
        return self._away or self._journal.shortage()

    @property
    def stale(self) -> bool:
        """Whether nothing can be written down now, so that the state may be behind what happens."""
        return bool(self._away)

    def post(self, event: AnyEvent, done: Callable[[], None] | None = None) -> None:
        """Have the core told, soon and in order; `done` as in `Item`."""
        if isinstance(event, ExecutorConnected):
            self.term.followed(event.term)
        self._queue.put(Item(event=event, done=done))

    async def request(self, event: AnyEvent, *, key: Key | None = None) -> Entry:
        """See `Control.request`."""
        if why := self._away:
            raise NotAccepting(why)
        reply: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._queue.put(Item(event=event, reply=reply, key=key))
        return await reply

    async def committed_beyond(self, sequence: int) -> None:
        """Return once an entry later than `sequence` is in the journal."""
        while self.sequence <= sequence:
            await self._bell.wait()

    # ------------------------------------------------------------ its life

    async def start(
        self, *, perform: Callable[[AnyEffect], None], follow: Callable[[State], None]
    ) -> None:
        """Begin the term; the core orders anew what earlier terms did not see ended.

        `perform` begins an effect, `follow` is shown each committed state.
        """
        self._perform, self._follow = perform, follow
        await self._work([Item(event=DriverStarted(term=self.term.number))])

    async def run(self) -> None:
        """Work until cancelled. Raises `PermanentError` once another driver has taken over."""
        self._queue.open()
        while True:
            await self._work(await self._queue.batch(self._deadlines))

    @property
    def _away(self) -> str | None:
        """Why nothing can be written down, or nobody knows whether it can."""
        return self._commits.trouble or self.term.away

    async def _work(self, batch: Sequence[Item]) -> None:
        """Decide the batch and commit it as one; where that fails, again, without the requests."""
        batch, earlier = await self._known(batch)
        while batch:
            draft = self._draft()
            found = await self._decided(batch, draft, earlier)
            if not draft.entries or await self._commits.commit(draft, self.state):
                await self._committed(draft)
                answer(batch, found)
                return
            batch = without_requests(batch, self._commits.trouble or "")
            await self._commits.rest()
        self._commits.trouble = None  # nothing waits to be committed

    async def _known(self, batch: Sequence[Item]) -> tuple[Sequence[Item], dict[str, Earlier]]:
        """The batch with the earlier requests that it repeats; where the journal does not answer,
        the batch without requests.
        """
        try:
            return batch, await earlier_requests(self._journal, batch)
        except TemporaryError as error:
            self._commits.in_trouble(str(error))
            return without_requests(batch, str(error)), {}

    def _draft(self) -> Draft:
        return Draft(
            state=self.state,
            now=self.now(),
            at=self._clock.wall().isoformat(),
            policy=self._policy,
            rank_tables=self._rank_tables,
            census=self._census,
        )

    async def _decided(
        self, batch: Sequence[Item], draft: Draft, earlier: dict[str, Earlier]
    ) -> list[Entry | Exception | None]:
        """Have the draft decided. Requests that cannot be are refused; the others, each with its
        entry, are answered after the commit."""
        found = await beside(
            lambda: [put(item, draft, self._journal, earlier) for item in batch], self.state
        )
        refuse(batch, found)
        return found

    async def _committed(self, draft: Draft) -> None:
        """From here on it is true: show it, then do what it orders."""
        self._commits.trouble = None
        if not draft.entries:
            return
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


def _state_of(encoded: bytes | None) -> State:
    """Raises `PermanentError` where it cannot be read."""
    try:
        return State() if encoded is None else decode(encoded)
    except UnreadableState as error:
        raise PermanentError(str(error)) from error

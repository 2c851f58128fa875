"""A decided batch becomes true: entries and what they changed, in one transaction of the journal.

Used by `driver.loop`. Must not act on it, nor show it.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from holdfast.driver.core.state.model import State
from holdfast.driver.formats.encode import encode, encode_change, settled
from holdfast.driver.journal.draft import Draft
from holdfast.driver.ports import InDoubt, Journal, TemporaryError
from holdfast.kit.logs import LazyLogger

MANY_NODES = 1_000
"""From so many on a batch is decided on a thread, while this one hears nodes and people: to end the
ranks of 12,500 took .3 s here, those of 1,000 took 30 ms."""

COMMIT_AGAIN_S = 0.5
"""Until a commit that failed is tried again; what waits for it is not started."""

_log = LazyLogger()

_Done = TypeVar("_Done")


async def beside(work: Callable[[], _Done], state: State) -> _Done:
    """On a thread where it may take long. What it reads is frozen, and what it writes its own:
    the loop's task alone changes the state, and waits for it."""
    if len(state.nodes) < MANY_NODES:
        return work()
    return await asyncio.to_thread(work)


class Deltas:
    """What of the state a commit writes: all of it, or what changed since the commit before.

    The first commit of a term writes all, for nobody knows what an earlier Holdfast left; then each
    writes what changed, until that has grown beyond what all of it would be.
    """

    def __init__(self) -> None:
        self._whole_bytes: int | None = None
        self._changed_bytes = 0

    def of(self, before: State, after: State) -> tuple[bytes, bool]:
        """What to write, and whether that is only what changed since `before`, which is there."""
        if self._whole_bytes is None or self._changed_bytes > self._whole_bytes:
            return encode(after), False
        return encode_change(before, after), True

    def done(self, written: bytes, *, change: bool) -> None:
        """It is in the journal."""
        if change:
            self._changed_bytes += len(written)
        else:
            self._whole_bytes, self._changed_bytes = len(written), 0


class Commits:
    """Of one driver's journal. `trouble`: why nothing can be committed now."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._deltas = Deltas()
        self.trouble: str | None = None

    def in_trouble(self, why: str) -> None:
        """Keep it, and say it once."""
        if why != self.trouble:
            _log.error("journal failed", why=why)
        self.trouble = why

    async def rest(self) -> None:
        """Until a commit may be tried again."""
        await asyncio.sleep(COMMIT_AGAIN_S)

    async def commit(self, draft: Draft, before: State) -> bool:
        """Make the draft true. False: nothing was written.

        A draft that may be written already is tried until that is known: who asked waits, for
        neither yes nor no would be true.
        """
        state, change = await beside(lambda: self._deltas.of(before, draft.state), before)
        draft.state = settled(draft.state)
        in_doubt = False
        while True:
            try:
                await self._journal.commit(draft.entries, state, change=change, claims=draft.claims)
            except TemporaryError as error:
                self.in_trouble(str(error))
                in_doubt = in_doubt or isinstance(error, InDoubt)
                if not in_doubt:
                    return False
                await self.rest()
            else:
                self._deltas.done(state, change=change)
                return True

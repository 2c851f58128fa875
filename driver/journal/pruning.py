"""Old entries of the journal go, for a driver that runs for years; a task beside the loop.

Made by `driver.wiring`. Kept are the newest entries, and all that `why` and `story` may be asked:
those of jobs and incidents that the state still has. Must not touch the state.
"""

import asyncio
from collections.abc import Callable

from holdfast.driver.core.state.model import State
from holdfast.driver.ports import EntryStore, PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()

REST_S = 600.0
"""From one pass over all old entries to the next, and after a database that did not answer."""
BETWEEN_S = 0.5
"""Between two transactions of a pass: what jobs need of the journal comes first."""


class Pruner:
    """`run` prunes until it is cancelled. `keep`: how many of the newest entries stay."""

    def __init__(self, store: EntryStore, state: Callable[[], State], *, keep: int) -> None:
        self._store = store
        self._state = state
        self._keep = keep

    async def run(self) -> None:
        while True:
            try:
                if gone := await self.pass_once():
                    _log.info("journal pruned", entries=gone)
            except (TemporaryError, PermanentError) as error:
                _log.warning("journal not pruned", why=str(error))
            await asyncio.sleep(REST_S)

    async def pass_once(self, *, between_s: float = BETWEEN_S) -> int:
        """Look at all entries that are old; how many went. Raises `TemporaryError` or
        `PermanentError`, with whole transactions done or not.
        """
        after: int | None = 0
        gone = 0
        while after is not None:
            state = self._state()
            pruned = await self._store.prune(
                after=after, keep=self._keep, jobs=state.jobs, incidents=state.incidents
            )
            after, gone = pruned.upto, gone + pruned.gone
            await asyncio.sleep(between_s)
        return gone

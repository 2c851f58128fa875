"""Keeps what executors tell of ranks whose node their job has left: their last lines, for people.

Made by `driver.wiring`, told by the nodes' sessions. Neither the loop nor a node waits for it, and
what cannot be kept is said, and lost.
"""

import asyncio
from collections.abc import Callable

from holdfast.driver.core.state.model import State
from holdfast.driver.ports import Kept, LastLinesStore, PermanentError, TemporaryError
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.lastlines import share_bytes
from holdfast.protocol.messages import LastLines

KEEPS_BYTES = 16 << 20
"""Of one job, all its ranks together: 64 KiB a file with up to 128 ranks, 8 KiB with 1,000."""
AT_ONCE = 64
"""Ranks in one transaction: what the loop commits goes through the same writer."""
AGAIN_S = 1.0
"""After a database that did not answer."""

_log = LazyLogger()


class LastLinesKeeper:
    """`told` at any time; `run` writes until it is cancelled."""

    def __init__(self, store: LastLinesStore, state: Callable[[], State]) -> None:
        self._store = store
        self._state = state
        self._waiting: dict[tuple[str, int], Kept] = {}
        self._came = asyncio.Event()

    def told(self, last: LastLines) -> None:
        """Keep it soon. Of a job that is not here, or with more than was agreed, nothing is."""
        job = self._state().jobs.get(last.job)
        if job is None or not 0 <= last.rank < job.world_size:
            return
        most = share_bytes(KEEPS_BYTES, job.world_size)
        self._waiting[last.job, last.rank] = Kept(
            job=last.job,
            rank=last.rank,
            number=job.number,
            attempt=last.attempt,
            stdout=last.stdout[-most:],
            stderr=last.stderr[-most:],
        )
        self._came.set()

    async def run(self) -> None:
        """Write what was told."""
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                await self._keep(
                    {key: self._waiting.pop(key) for key in [*self._waiting][:AT_ONCE]}
                )

    async def _keep(self, some: dict[tuple[str, int], Kept]) -> None:
        try:
            await self._store.keep([*some.values()], jobs=self._state().jobs.keys())
        except TemporaryError as error:
            _log.warning("last lines wait", why=str(error))
            self._waiting = some | self._waiting
            await asyncio.sleep(AGAIN_S)
        except PermanentError as error:
            _log.error("last lines lost", ranks=len(some), why=str(error))

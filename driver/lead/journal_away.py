"""Waits for a database that is away, in this process: who starts us anew would wait for minutes.

Used by `driver.main` with `--standby`, for what it needs of the journal before it leads. Must not
take a term.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TypeVar

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.journal.opening import check_journal, open_journal
from holdfast.driver.lead.standby import Lead
from holdfast.driver.people.console import say_to_people
from holdfast.driver.ports import TemporaryError
from holdfast.driver.settings import Settings
from holdfast.kit.backoff import full_jitter
from holdfast.kit.logs import LazyLogger
from holdfast.kit.together import until_first

BASE_S, CAP_S = 0.1, 5.0
"""Of the waits between two tries: a database that is back waits for nobody for long."""

TRY_S = 30.0
"""For one try; of several hosts each has 5 s to take a connection. One that takes it and then is
silent would hold a try up for ever."""

PATIENCE_S = 600.0
"""After its first try that failed, of a driver that has nothing of the database yet: started again
it may be given another address or password. A kubelet that has let it run for so long starts it
again at once."""

T = TypeVar("T")

_log = LazyLogger()


async def insist(work: Callable[[], T], told: asyncio.Event) -> T | None:
    """What `work` gives, tried again while it raises `TemporaryError`; None where this driver is
    `told` to end before.

    Raises `TemporaryError` after PATIENCE_S, and whatever else `work` raises.
    """
    had: list[T] = []
    news, patience = _News(), asyncio.timeout(None)

    async def again() -> None:
        waits = full_jitter(base_s=BASE_S, cap_s=CAP_S)
        while not had:
            try:
                had.append(await tried(work))
            except TemporaryError as error:
                if not news.why:
                    patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
                news.away(error)
                await asyncio.sleep(next(waits))
        news.back()

    try:
        async with patience:
            await until_first(again(), told.wait())
    except TimeoutError as error:
        raise TemporaryError(news.why) from error
    return None if told.is_set() else had[0]


async def tried(work: Callable[[], T]) -> T:
    """What `work` gives, on a thread that is not waited for where this is given up: at the end of
    the process asyncio would wait for one of its own, and that one for the database.

    Raises what `work` raises, and `TemporaryError` where it takes longer than TRY_S.
    """
    given: Future[T] = Future()
    given.set_running_or_notify_cancel()

    def run() -> None:
        try:
            given.set_result(work())
        except Exception as error:  # noqa: BLE001 it is raised where it is waited for
            given.set_exception(error)

    Thread(target=run, name="retry", daemon=True).start()
    try:
        async with asyncio.timeout(TRY_S):
            return await asyncio.wrap_future(given)
    except TimeoutError as error:
        silent = f"journal: the database is away (no answer within {TRY_S:.0f} s)"
        raise TemporaryError(f"{silent}. Running jobs go on.") from error


class LeadWithJournal:
    """A `standby.Lead` that is ours only together with the open journal, which is `journal` then.

    Whoever has taken the lead and cannot open the journal gives it up at once: another driver may
    reach a database from which this one alone is cut off. It seeks the lead again only when the
    database has answered here. So it keeps nobody from leading meanwhile, and where the database is
    away from all, nobody has the lead, and drivers do not take it from each other by turns.
    """

    def __init__(self, lead: Lead, settings: Settings) -> None:
        self.journal: SqlJournal | None = None
        self._lead = lead
        self._settings = settings
        self._news = _News()

    async def seek(self) -> str:
        """See `standby.Lead`. Raises `PermanentError` where the journal can never be opened."""
        if self._news.why:
            await tried(partial(check_journal, self._settings))
        leader = await self._lead.seek()
        if not leader and self.journal is None:
            try:
                self.journal = await tried(partial(open_journal, self._settings))
            except TemporaryError as error:
                self._news.away(error)
                await self._lead.close()
                raise
        self._news.back()
        return leader

    async def close(self) -> None:
        await self._lead.close()


class _News:
    """Says once why a driver waits, and once that it goes on. `why` it waits now; "" if not."""

    def __init__(self) -> None:
        self.why = ""

    def away(self, error: TemporaryError) -> None:
        if not self.why:
            _log.warning("journal away", why=str(error))
            say_to_people(f"driver waits: {error}")
        self.why = str(error)

    def back(self) -> None:
        if self.why:
            self.why = ""
            _log.info("journal is back")
            say_to_people("driver goes on: the database is back")

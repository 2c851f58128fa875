"""Sends one receiver what it wants to know, in order, until it has taken it or time is up.

Goes through the journal from the place that it kept there: what was committed is sent by whichever
driver leads then, at least once. At most a page of entries is in memory; a receiver that is away
makes no queue but the journal.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

import httpx
import msgspec

from holdfast.driver.follow.webhooks.file import Webhook
from holdfast.driver.follow.webhooks.messages import TEST, Message, message, messages
from holdfast.driver.ports import Journal, PermanentError, PositionStore, TemporaryError
from holdfast.kit.backoff import full_jitter
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.protocol import webhooks

WITHIN_S = 10.0
"""For a receiver to answer."""
AGAIN_S, LONGEST_AGAIN_S = 1.0, 300.0
"""Between tries, at most: at first, and in the end."""
GIVEN_UP_S = 86_400.0
"""After a day what happened is told to nobody any more: it is in the journal."""
REFUSED_TRIES = 5
"""Of what a receiver answers with 4xx, which it may do for ever."""
FOR_LATER = frozenset({408, 425, 429})
"""4xx that say: later (RFC 9110, 6585, 8470)."""
PAGE_ENTRIES = 100
UNMARKED = 1_000
"""Entries that are of no interest after which the place is kept all the same."""

_log = LazyLogger()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a receiver is. `behind`: entries that it was not yet asked about."""

    name: str
    format: str
    signed: bool
    sent: int
    given_up: int
    behind: int
    trouble: str


class Sender:
    """One receiver. `run` never ends; `test` at any time."""

    def __init__(
        self,
        hook: Webhook,
        *,
        journal: Journal,
        positions: PositionStore,
        newest: Callable[[], int],
        beyond: Callable[[int], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self.hook = hook
        self._journal, self._positions = journal, positions
        self._newest, self._beyond, self._clock = newest, beyond, clock
        self._after = self._marked = newest()
        self._sent = self._given_up = 0
        self._trouble = ""
        self._http: httpx.AsyncClient | None = None
        logging.getLogger("httpx").setLevel(logging.WARNING)  # else it logs addresses

    @property
    def health(self) -> Health:
        return Health(
            name=self.hook.name,
            format=self.hook.format,
            signed=bool(self.hook.secret),
            sent=self._sent,
            given_up=self._given_up,
            behind=max(0, self._newest() - self._after),
            trouble=self._trouble,
        )

    async def run(self) -> None:
        """For ever. What the database does not answer is asked again."""
        begun = False
        waits = full_jitter(base_s=AGAIN_S, cap_s=LONGEST_AGAIN_S)
        while True:
            try:
                if not begun:
                    await self._begin()
                    begun = True
                await self._page()
                waits = full_jitter(base_s=AGAIN_S, cap_s=LONGEST_AGAIN_S)
            except (TemporaryError, PermanentError) as error:
                _log.warning("webhook waits", webhook=self.hook.name, why=str(error))
                await asyncio.sleep(next(waits))

    async def test(self) -> str:
        """Send an example, once. Why it was not taken; "" where it was."""
        at = self._clock.wall().isoformat()
        return await self._post(message(self.hook, TEST, id="test", at=at))

    async def _begin(self) -> None:
        """Where the driver before was; who is new is told from now on."""
        known = await asyncio.to_thread(self._positions.position, self.hook.name)
        if known is None:
            await self._mark()
        else:
            self._after = self._marked = known

    async def _page(self) -> None:
        entries = await asyncio.to_thread(
            lambda: self._journal.entries(after=self._after, limit=PAGE_ENTRIES)
        )
        for entry in entries:
            told = list(messages(entry, self.hook))
            for each in told:
                await self._deliver(each)
            self._after = entry.sequence
            if told or self._after - self._marked > UNMARKED:
                await self._mark()
        if not entries:
            await self._beyond(self._after)

    async def _mark(self) -> None:
        await self._positions.keep_position(self.hook.name, self._after)
        self._marked = self._after

    async def _deliver(self, told: Message) -> None:
        """Until it is taken, or given up."""
        waits = full_jitter(base_s=AGAIN_S, cap_s=LONGEST_AGAIN_S)
        tries = 0
        while why := await self._post(told):
            tries += 1
            if self._is_over(told, why, tries):
                self._given_up += 1
                name, tried = self.hook.name, f"{tries} times"
                _log.error("webhook given up", webhook=name, id=told.id, tried=tried, why=why)
                break
            if why != self._trouble:
                _log.warning("webhook fails", webhook=self.hook.name, why=why)
            self._trouble = why
            await asyncio.sleep(next(waits))
        else:
            self._sent += 1
        self._trouble = why

    def _is_over(self, told: Message, why: str, tries: int) -> bool:
        age_s = (self._clock.wall() - datetime.fromisoformat(told.at)).total_seconds()
        refused = why.startswith(_REFUSES) and tries >= REFUSED_TRIES
        return refused or age_s > GIVEN_UP_S

    async def _post(self, told: Message) -> str:
        """Why it was not taken, without the address; "" where it was."""
        try:
            async with asyncio.timeout(WITHIN_S), self._asked(told) as answer:
                return _said(answer.status_code)  # its body is of no interest
        except (TimeoutError, httpx.TimeoutException):
            return f"it did not answer within {WITHIN_S:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"it cannot be reached ({type(error).__name__})"
        except Exception as error:  # noqa: BLE001 no receiver ends a driver
            kind = type(error).__name__
            return f"nothing can be sent, look at the driver's {_ENVIRONMENT} ({kind})"

    def _asked(self, told: Message) -> AbstractAsyncContextManager[httpx.Response]:
        """Raises what a client does that cannot be made, as of a proxy that httpx does not know."""
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=WITHIN_S)
        headers = self._headers(told)
        return self._http.stream("POST", self.hook.address, content=told.body, headers=headers)

    def _headers(self, told: Message) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            webhooks.NAME: self.hook.name,
            webhooks.DELIVERY: told.id,
        }
        if self.hook.secret:
            now_s = self._clock.wall().timestamp()
            signed = webhooks.signature(self.hook.secret, told.body, now_s=now_s)
            headers[webhooks.SIGNATURE] = signed
        return headers


_REFUSES = "it refuses"
_ENVIRONMENT = "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"


def _said(status: int) -> str:
    if 200 <= status < 300:
        return ""
    refuses = 400 <= status < 500 and status not in FOR_LATER
    return f"{_REFUSES if refuses else 'it fails'}: HTTP {status}"

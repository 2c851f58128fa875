"""A driver in waiting: it says who leads until it is its turn, and later holds on to the lead.

Called by `driver.main` with `--standby`. The lead only says who tries: what may be written is
decided by the term, which is taken in the journal. So to lose the lead is no reason to stop; that
another has taken the term is, and the loop sees that. Must not touch the journal.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from holdfast.driver.ports import TemporaryError
from holdfast.driver.serve.server import Server
from holdfast.kit.logs import LazyLogger
from holdfast.kit.together import until_first

SEEK_S = 1.0
"""Between two looks at the lead."""

STEP_DOWN_S = 10.0
"""Of a leader's tries to reach its journal in vain: by then another may have the term, and
executors have to be free to go there."""

_log = LazyLogger()


class Lead(Protocol):
    """What one driver at a time can have, and loses with its life or its connection."""

    async def seek(self) -> str:
        """Take it if it is free, keep it where it is ours: "" in both cases, else the `title` of
        who has it.

        Raises `TemporaryError` where nobody knows.
        """
        ...

    async def close(self) -> None:
        """Give it up; it may be sought again."""
        ...


def title(name: str, url: str) -> str:
    """How a driver is called that has the lead."""
    return f"{name} at {url}"


def url_of(leader: str) -> str:
    """Where a driver with this title is; "" where it does not say."""
    url = leader.rpartition(" at ")[2]
    return url if url.startswith(("http://", "https://")) else ""


async def stand_by(
    lead: Lead,
    server: Server,
    sockets: Sequence[socket.socket],
    *,
    say: Callable[[str, str], None],
) -> bool:
    """Serve, and `say` why nothing is led here, and where it is, until the lead is ours.

    False if told to end.
    """
    serving = asyncio.create_task(server.serve([each.dup() for each in sockets]))
    try:
        await until_first(_until_ours(lead, say), asyncio.wait({serving}))
    finally:
        server.should_exit = True
        await serving
    return not server.told.is_set()


async def keep_lead(lead: Lead) -> None:
    """Hold on to it until cancelled, and take it back where it was lost."""
    why = None
    while True:
        news = await _not_ours(lead)
        if news and news != why:
            _log.warning("lead lost", why=news.why)
        elif why and not news:
            _log.info("lead is back")
        why = news
        await asyncio.sleep(SEEK_S)


class _NotOurs(NamedTuple):
    """Why the lead is not ours, or may not be, and where who has it is, or ""."""

    why: str
    url: str


async def _until_ours(lead: Lead, say: Callable[[str, str], None]) -> None:
    why = None
    while news := await _not_ours(lead):
        say(news.why, news.url)
        if news != why:
            _log.info("lead waits", why=news.why)
        why = news
        await asyncio.sleep(SEEK_S)


async def _not_ours(lead: Lead) -> _NotOurs | None:
    """None where it is ours."""
    try:
        leader = await lead.seek()
    except TemporaryError as error:
        return _NotOurs(str(error), "")
    return _NotOurs(f"{leader} leads", url_of(leader)) if leader else None

"""A driver in waiting: it says who leads until it is its turn, and later holds on to the lead.

Called by `driver.main` with `--standby`. The lead only says who tries: what may be written is
decided by the term, which is taken in the journal. Must not touch the journal.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
import uvicorn

from holdfast.driver.ports import TakenOver, TemporaryError

SEEK_S = 1.0
"""Between two looks at the lead."""

STEP_DOWN_S = 10.0
"""Of a leader's tries to reach the lead in vain: by then another may have it, and executors have to
be free to go there."""

_log = structlog.get_logger()


class Lead(Protocol):
    """What one driver at a time can have, and loses with its life or its connection."""

    def seek(self) -> str:
        """Take it if it is free: "" where it is ours now, else who has it.

        Raises `TemporaryError` where nobody knows; what we had is lost then.
        """
        ...

    def close(self) -> None:
        """Give it up."""
        ...


async def stand_by(
    lead: Lead,
    server: uvicorn.Server,
    sockets: Sequence[socket.socket],
    *,
    say: Callable[[str], None],
) -> bool:
    """Serve, and `say` why nothing is led here, until the lead is ours; False if told to end."""
    serving = asyncio.create_task(server.serve([each.dup() for each in sockets]))
    leader: str | None = None
    while not serving.done() and (leader := await _ask(lead, say)) != "":
        await asyncio.wait({serving}, timeout=SEEK_S)
    told_to_end = server.should_exit
    server.should_exit = True
    await serving
    return leader == "" and not told_to_end


async def keep_lead(lead: Lead) -> None:
    """Hold on to it until cancelled. Raises `TakenOver` once another has it, or may have it."""
    why = "it has not answered"

    def note(said: str) -> None:
        nonlocal why
        why = said

    while True:
        try:
            async with asyncio.timeout(STEP_DOWN_S):
                while (leader := await _ask(lead, note)) is None:
                    await asyncio.sleep(SEEK_S)
        except TimeoutError:
            raise TakenOver(
                f"this driver has stopped, for another may lead since {STEP_DOWN_S:.0f} s ({why})"
            ) from None
        if leader:
            raise TakenOver(f"this driver has stopped, for another leads: {leader}")
        await asyncio.sleep(SEEK_S)


async def _ask(lead: Lead, say: Callable[[str], None]) -> str | None:
    """The answer of `seek`; None, and why, where there was none."""
    try:
        leader = await asyncio.to_thread(lead.seek)
    except TemporaryError as error:
        say(str(error))
        return None
    if leader:
        say(f"{leader} leads")
    return leader

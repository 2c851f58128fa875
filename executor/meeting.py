"""Looks whether the Redis where a job's ranks meet answers: before they start, and while they run.

Called by `executor.rendezvous` and `executor.loop`, on the node of rank 0. Ranks are held while it
does not; those that run are left alone, for who has met needs it no more.
"""

import asyncio

from holdfast.executor.adapters.redis_silence import place, silence
from holdfast.executor.core import events as ev
from holdfast.executor.ranks import Tell

LOOK_S = 1.0
"""Between two looks while ranks are held."""
EVERY_S = 3.0
"""Between two looks while they run."""
MISSED = 2
"""Looks in vain, one after another, before it is told: one may meet a server in the moment in which
it is started again."""


async def awaited(tell: Tell, job: str, epoch: int, url: str) -> None:
    """Return once it answers."""
    missed = 0
    while why := await silence(url):
        missed += 1
        if missed == 1:
            tell(ev.RoomLacked(job=job, epoch=epoch, why=f"{_words(url, why)}. {_FIX}"))
        if missed == MISSED:
            tell(ev.MeetingLooked(job=job, epoch=epoch, why=_words(url, why)))
        await asyncio.sleep(LOOK_S)
    if missed:
        tell(ev.RoomLacked(job=job, epoch=epoch, why=""))
    tell(ev.MeetingLooked(job=job, epoch=epoch, why=""))


async def watched(tell: Tell, job: str, epoch: int, url: str) -> None:
    """Tell whenever that changes, until cancelled."""
    missed = 0
    while True:
        await asyncio.sleep(EVERY_S)
        why = await silence(url)
        if why:
            missed += 1
        if (why and missed == MISSED) or (missed >= MISSED and not why):
            tell(ev.MeetingLooked(job=job, epoch=epoch, why=_words(url, why) if why else ""))
        if not why:
            missed = 0


_FIX = "Start it again, or open the way to it, and training goes on by itself"


def _words(url: str, why: str) -> str:
    return f"the Redis at {place(url)} where ranks meet does not answer ({why})"

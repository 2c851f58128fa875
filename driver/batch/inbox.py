"""What waits to be decided, in the order in which it came: events, people's requests, ticks.

Filled and emptied by `driver.loop`. A tick stands behind all that was queued when it fell due, and
before all of it stands what was lost, where this driver stood still.
"""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from holdfast.driver.batch.deadlines import Deadlines
from holdfast.driver.core.events import AnyEvent, Stalled, Ticked
from holdfast.driver.follow.running_clock import LOOK_S, Looks
from holdfast.driver.ports import Entry, Key

MAX_BATCH = 256
"""Events decided and committed together: bounds how long the first of them waits, by some 20 ms of
deciding. A commit looks along all nodes once, so that smaller ones cost more each with more nodes.
"""

LEAST_TICK_S = 0.02
"""Between two ticks: a deadline that a defect leaves in the state must not spin."""

LONGEST_REST_S = 60.0
"""After a tick that left it there again and again."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to the core; `reply` where a person waits for it.

    `done` is called once what the event led to is in the journal, or it has led to nothing.
    """

    event: AnyEvent
    done: Callable[[], None] | None = None
    reply: asyncio.Future[Entry] | None = None
    key: Key | None = None


class Inbox:
    """Of one loop. `now`: its driver time, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._queue: asyncio.Queue[Item] = asyncio.Queue()
        self._looks = Looks(now())
        self._ticked = float("-inf")
        self._tick_queued = False
        self._left_due = 0

    def put(self, item: Item) -> None:
        self._queue.put_nowait(item)

    def qsize(self) -> int:
        """How many wait."""
        return self._queue.qsize()

    def open(self) -> None:
        """What passed until now is no standstill."""
        self._looks = Looks(self._now())

    async def batch(self, deadlines: Deadlines) -> list[Item]:
        """What is queued, waiting for the first, or a tick where a deadline has passed."""
        due = deadlines.next_s()
        if due is not None:
            due = max(due, self._ticked + self._rest_s(due))
        batch: list[Item] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_until(due, self._now())):
                batch.append(await self._queue.get())
        if stood_s := self._looks.look(self._now()):
            batch.insert(0, Item(event=Stalled(stood_s=stood_s)))
        elif due is not None and self._now() >= due and not self._tick_queued:
            self._tick_queued = True
            self._queue.put_nowait(Item(event=Ticked()))
        while len(batch) < MAX_BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        self._note_tick(batch)
        return batch

    def _rest_s(self, due: float) -> float:
        """After a tick: twice as long each time that it left in the state what was due."""
        if due > self._ticked:
            self._left_due = 0
        return min(LONGEST_REST_S, LEAST_TICK_S * (1 << min(self._left_due, 16)))

    def _note_tick(self, batch: list[Item]) -> None:
        if any(isinstance(item.event, Ticked) for item in batch):
            self._ticked, self._tick_queued = self._now(), False
            self._left_due += 1  # until what is due next shows that nothing was left


def _until(due: float | None, now: float) -> float:
    """Seconds to `due`, or to the next look where that comes first."""
    return LOOK_S if due is None else min(LOOK_S, max(0.0, due - now))

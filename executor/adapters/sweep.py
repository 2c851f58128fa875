"""Ends everything below the executor but what it keeps: no orphan stays, whatever it did.

Called by `executor.loop` for a Clear. A child of a rank that left its session, or whose parent has
died, is below us all the same: we are its subreaper.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Collection

from holdfast.executor.adapters import proctree
from holdfast.executor.adapters.children import Children

LOOK_AGAIN_S = 0.02
"""Longest wait between two looks at /proc while something is left; an exit cuts it short."""


class Sweep:
    """One at a time; `hurry` turns grace into SIGKILL."""

    def __init__(
        self,
        children: Children,
        keep: Callable[[], Collection[int]],
        busy: Callable[[], bool],
    ) -> None:
        self._children = children
        self._keep = keep
        self._busy = busy
        self._deadline = 0.0

    async def clear(
        self, grace_s: float, leaders: Collection[int], *, interrupt: bool = False
    ) -> tuple[int, ...]:
        """Return once nothing is left. SIGTERM goes to `leaders` alone, as a kubelet's does; with
        `interrupt` those that have nothing to do at it get SIGINT. Those of them that had not ended
        when their grace was over are named.

        The grace is theirs and ends with the last of them: what they leave behind was told nothing,
        and has nobody to work for (a loader of torch would notice that after 5 s). `busy` says that
        a fork was ordered of which a look cannot show the child yet: that has to go as well.
        """
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + grace_s
        if grace_s > 0:
            told = {each for each in leaders if interrupt and proctree.interrupt(each)}
            proctree.signal_each(set(leaders) - told, signal.SIGTERM)
            proctree.signal_each(leaders, signal.SIGCONT)
        while loop.time() < self._deadline and self._may_run(leaders):
            await self._exit_or(LOOK_AGAIN_S)
        left = self._left() if grace_s > 0 and self._deadline > 0 else ()
        while (killed := self._kill()) is not None:
            await self._ends(killed, LOOK_AGAIN_S)
        self._children.forget_strays()
        return tuple(pid for pid in leaders if pid in left)

    def hurry(self) -> None:
        """No more grace."""
        self._deadline = 0.0

    def running(self, leaders: Collection[int]) -> set[int]:
        """Which of them are left."""
        return set(leaders).intersection(self._left())

    def _may_run(self, leaders: Collection[int]) -> bool:
        """Whether one of `leaders` is left, or may be on its way; asked in the order of `_kill`."""
        return self._busy() or bool(self.running(leaders))

    def _kill(self) -> list[int] | None:
        """SIGKILL to what is left, and who that was; None where nothing was, nor is to come.

        The question comes first: who arrives between a look and the question is in neither.
        """
        busy, left = self._busy(), self._left()
        proctree.signal_all(left, signal.SIGKILL)
        return left if busy or left else None

    def _left(self) -> list[int]:
        """A look at /proc takes its time: a child that is forked meanwhile by one that then ends,
        or is read before its parent (numbers begin again at the top), is in the next one only. So
        nothing is left when two looks in a row say so.
        """
        return self._look() or self._look()

    def _look(self) -> list[int]:
        return proctree.below(os.getpid(), keep=self._keep())

    async def _ends(self, killed: Collection[int], limit_s: float) -> None:
        """Wait for the last of those that are our own to reap, where some are: a look at /proc
        takes as long as the end of a rank."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        await self._exit_or(limit_s)
        while self._children.has_any(killed) and loop.time() < until_s:
            await self._exit_or(until_s - loop.time())

    async def _exit_or(self, limit_s: float) -> None:
        self._children.changed.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._children.changed.wait()
        except TimeoutError:
            return

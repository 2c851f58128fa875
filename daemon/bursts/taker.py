"""Takes bursts for the daemon's loop, one at a time, without holding it up."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from holdfast.protocol.messages import AskBurst, BurstTaken
from holdfast.traces.bursts.record import LARGEST_BYTES, MOST_SECONDS

BEYOND_S = 12.0
"""A sampler that has not ended by then, after its seconds, is ended: a busy machine starts one in
some seconds."""
_SAMPLER = "holdfast.daemon.bursts.sampler"

Send = Callable[[BurstTaken], Awaitable[bool]]


class Taker:
    """Of one node. `send` is given each burst, or why there is none."""

    def __init__(self, node: str, interface: str, sys_root: Path, send: Send) -> None:
        self._words = (node, interface, str(sys_root))
        self._send = send
        self._task: asyncio.Task[None] | None = None

    def ask(self, asked: AskBurst) -> None:
        """Begin it. One that comes while another is taken is refused."""
        if self._task is not None and not self._task.done():
            self._refusing = asyncio.create_task(
                self._answer(BurstTaken(id=asked.id, why="another burst is being taken there"))
            )
            return
        self._task = asyncio.create_task(self._take(asked))

    async def close(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _answer(self, taken: BurstTaken) -> None:
        await self._send(taken)

    async def _take(self, asked: AskBurst) -> None:
        seconds = min(MOST_SECONDS, max(0.1, asked.seconds))
        node, interface, sys_root = self._words
        words = (node, f"{seconds:g}", interface, sys_root)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _SAMPLER, *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            why = f"its sampler cannot be started: {error.strerror}"
            await self._answer(BurstTaken(id=asked.id, why=why))
            return
        try:
            await self._answer(await self._heard(asked.id, process, seconds))
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _heard(
        self, asked: str, process: asyncio.subprocess.Process, seconds: float
    ) -> BurstTaken:
        try:
            async with asyncio.timeout(seconds + BEYOND_S):
                data, said = await process.communicate()
        except TimeoutError:
            return BurstTaken(id=asked, why=f"its sampler took more than {seconds + BEYOND_S:g} s")
        if process.returncode:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            return BurstTaken(id=asked, why="".join(last)[:200] or "its sampler ended")
        if len(data) > LARGEST_BYTES:
            return BurstTaken(id=asked, why=f"it has {len(data):,} bytes, too many to send")
        return BurstTaken(id=asked, data=data)

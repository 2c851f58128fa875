"""Answers the driver's questions: a piece of a rank's log, the stacks of ranks.

Called by `executor.loop`. Must not change anything.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from holdfast.executor.adapters.children import Children
from holdfast.executor.adapters.pyspy import stacks
from holdfast.executor.ranks import Ranks
from holdfast.protocol.messages import AskLog, AskStacks, Desired, LogChunk, Message, Stacks
from holdfast.protocol.paths import RunPaths

MAX_CHUNK_BYTES = 512 * 1024
"""Half of the largest frame."""
MAX_ROOTS = 64
"""Jobs whose log folder is remembered, newest last."""


class Answers:
    """Knows where each job that was here has its logs."""

    def __init__(self, children: Children, ranks: Ranks) -> None:
        self._children = children
        self._ranks = ranks
        self._roots: dict[str, Path] = {}

    def remember(self, desired: Desired) -> None:
        """Note where the job of `desired` has its logs."""
        if desired.job is None or desired.task is None:
            return
        self._roots.pop(desired.job, None)
        self._roots[desired.job] = Path(desired.task.log_root)
        while len(self._roots) > MAX_ROOTS:
            del self._roots[next(iter(self._roots))]

    async def to(self, question: AskStacks | AskLog, answer: Callable[[Message], None]) -> None:
        """Call `answer` with what was asked for."""
        match question:
            case AskLog():
                answer(self._log(question))
            case AskStacks():
                answer(Stacks(id=question.id, stacks=await self._stacks(question.ranks)))

    async def _stacks(self, ranks: tuple[int, ...]) -> dict[int, str]:
        here = [rank for rank in ranks if rank in self._ranks.pids]
        each = MAX_CHUNK_BYTES // max(1, len(here))
        pids = [self._ranks.pids[rank] for rank in here]
        taken = await asyncio.gather(*(stacks(self._children, pid, max_chars=each) for pid in pids))
        found = dict(zip(here, taken, strict=True))
        return {rank: found.get(rank, "no stack: the rank does not run here") for rank in ranks}

    def _log(self, question: AskLog) -> LogChunk:
        root = self._roots.get(question.job)
        if root is None or question.stream not in ("stdout", "stderr"):
            return LogChunk(id=question.id, data=b"", end=0, missing=True)
        folder = RunPaths(root).rank(question.job, question.attempt, question.rank)
        limit = min(max(question.max_bytes, 0), MAX_CHUNK_BYTES)
        try:
            with (folder / f"{question.stream}.log").open("rb") as file:
                size = file.seek(0, 2)
                start = max(0, size + question.offset) if question.offset < 0 else question.offset
                file.seek(min(start, size))
                data = file.read(limit)
                return LogChunk(id=question.id, data=data, end=file.tell())
        except OSError:
            return LogChunk(id=question.id, data=b"", end=0, missing=True)

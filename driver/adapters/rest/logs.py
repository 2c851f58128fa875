"""A rank's log as text: its end, or all of it, and what comes, until the job is over."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from holdfast.driver.adapters.rest.guard import PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.parameters import Parameters
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.core.state.model import Job
from holdfast.driver.people.control import Control
from holdfast.driver.ports import PermanentError, TemporaryError

router = APIRouter(prefix=PREFIX, tags=["logs"], dependencies=[Depends(person)])

LOOK_AGAIN_S = 0.25
"""How soon a followed log is read again when nothing was new: quick enough for a reader."""
LONGEST_LINE_BYTES = 512
"""What a line may take on average when only the last lines are asked for."""
FIRST_ATTEMPT = 1
"""The number of a job's first attempt; it has 0 while its ranks have never been seated."""
PIECE_BYTES = 65_536
"""What is read of a file at once."""


class RankLog:
    """One log file of one rank: read through its node, or here where the node has been left."""

    def __init__(self, control: Control, job: Job, attempt: int, rank: int, stream: str) -> None:
        self._control, self._stream = control, stream
        self.job, self.attempt, self.rank = job.name, attempt, rank
        self._number = job.number
        self._file = control.settings.paths.rank(job.name, attempt, rank) / f"{stream}.log"

    async def read(self, offset: int) -> tuple[bytes, int] | None:
        """A piece and the offset to go on from; None where there is no such log (yet).

        Raises `TemporaryError` where its node does not answer and it is not here either.
        """
        node = self._node()
        if not node:
            return await self._read_kept(offset)
        try:
            return await self._control.nodes.log(
                node,
                self.job,
                attempt=self.attempt,
                rank=self.rank,
                stream=self._stream,
                offset=offset,
            )
        except PermanentError:
            return await self._read_kept(offset)
        except TemporaryError:
            if (here := await self._read_kept(offset)) is None:
                raise
            return here

    @property
    def may_grow(self) -> bool:
        job = self._control.state.jobs.get(self.job)
        return job is not None and not job.finished and job.attempt <= self.attempt

    def missing(self) -> Problem:
        """404 with the reason why there is nothing to read."""
        name, job = self.job, self._control.state.jobs.get(self.job)
        if job is not None and job.attempt < FIRST_ATTEMPT:
            sentence = f"{name} has not run, so it has no logs: it is {job.phase.value}."
        elif job is not None and self.attempt > job.attempt:
            sentence = f"{name} has no attempt {self.attempt}: its newest is {job.attempt}."
        else:
            which = f"{self._stream} of rank {self.rank} in attempt {self.attempt} of {name}"
            sentence = f"there is no {which}, neither on its node nor with the driver."
        return Problem(404, sentence, fix=f"What happened: holdfast story {name}")

    def _node(self) -> str:
        """Where the rank is, or was last; "" where the job holds no node for it."""
        job = self._control.state.jobs.get(self.job)
        return job.layout.node_of(self.rank) if job is not None else ""

    async def _read_kept(self, offset: int) -> tuple[bytes, int] | None:
        """From the driver's own folder, or of the last lines that the node told as it was left."""
        if (here := self._read_here(offset)) is not None:
            return here
        kept = await asyncio.to_thread(self._control.last_lines.kept, self.job, self.rank)
        if kept is None or (kept.number, kept.attempt) != (self._number, self.attempt):
            return None
        data = kept.stdout if self._stream == "stdout" else kept.stderr
        start = max(0, len(data) + offset) if offset < 0 else offset
        return data[start:], max(start, len(data))

    def _read_here(self, offset: int) -> tuple[bytes, int] | None:
        """From the driver's own folder: the nodes of one machine write into it."""
        try:
            with self._file.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size + offset) if offset < 0 else offset)
                return file.read(PIECE_BYTES), file.tell()
        except FileNotFoundError:
            return None


class LogParameters(Parameters):
    """Of a rank's log."""

    stream: Literal["stdout", "stderr"] = "stdout"
    attempt: int | None = Field(default=None, ge=0, description="Default: the newest.")
    tail: int | None = Field(default=None, ge=0, le=100_000, description="Only the last lines.")
    follow: bool = Field(default=False, description="Go on as it grows.")


@router.get("/jobs/{job}/ranks/{rank}/logs", response_class=StreamingResponse)
async def logs(
    job: str, rank: int, control: Driver, asked: Annotated[LogParameters, Query()]
) -> StreamingResponse:
    """What a rank wrote, as text/plain."""
    found = job_of(control, job)
    if not 0 <= rank < found.world_size:
        last = found.world_size - 1
        ranks = f"ranks 0 to {last}" if last else "one rank, rank 0"
        raise Problem(404, f"job {job} has {ranks}, not {rank}.")
    newest = max(found.attempt, FIRST_ATTEMPT)
    attempt = newest if asked.attempt is None else asked.attempt
    log = RankLog(control, found, attempt, rank, asked.stream)
    if log.attempt > newest:
        raise log.missing()
    tail = asked.tail
    try:
        came = await log.read(0 if tail is None else -max(1, tail * LONGEST_LINE_BYTES))
    except TemporaryError as error:
        raise unreadable(str(error)) from error
    if came is None and not (asked.follow and log.may_grow):
        raise log.missing()
    data, end = came or (b"", 0)
    first = (
        data if tail is None else b"".join(data.splitlines(keepends=True)[-tail:] if tail else [])
    )
    body = _pieces(log, first, end, follow=asked.follow)
    return StreamingResponse(body, media_type="text/plain; charset=utf-8")


def unreadable(why: str) -> Problem:
    """503: the rank's node does not answer."""
    return Problem(503, f"the log cannot be read now: {why}", fix="Try again later.")


async def _pieces(log: RankLog, first: bytes, end: int, *, follow: bool) -> AsyncIterator[bytes]:
    """What was read, the rest of the file, and, where followed, what comes."""
    yield first
    while True:
        grows = log.may_grow
        try:
            data, end = await log.read(end) or (b"", end)
        except TemporaryError as error:
            yield f"\n[the log cannot be read further now: {error}]\n".encode()
            return
        if data:
            yield data
        elif not (follow and grows):
            return
        else:
            await asyncio.sleep(LOOK_AGAIN_S)

"""A rank's log as text: its end, or all of it, and what comes, until the job is over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from holdfast.driver.adapters.rest.guard import Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.control import Control
from holdfast.driver.core.model import Job
from holdfast.driver.ports import TemporaryError

router = APIRouter(tags=["logs"], dependencies=[Depends(person)])

LOOK_AGAIN_S = 0.25
"""How soon a followed log is read again when nothing was new: quick enough for a reader."""
LONGEST_LINE_BYTES = 512
"""What a line may take on average when only the last lines are asked for."""


class RankLog:
    """One log file of one rank, read through its node."""

    def __init__(self, control: Control, job: Job, attempt: int, rank: int, stream: str) -> None:
        self._control, self._stream = control, stream
        self.job, self.attempt, self.rank = job.name, attempt, rank
        self._node = node_of_rank(job, rank)

    async def read(self, offset: int) -> tuple[bytes, int]:
        """A piece and the offset to go on from. Raises `TemporaryError`."""
        return await self._control.nodes.log(
            self._node,
            self.job,
            attempt=self.attempt,
            rank=self.rank,
            stream=self._stream,
            offset=offset,
        )

    @property
    def may_grow(self) -> bool:
        job = self._control.state.jobs.get(self.job)
        return job is not None and not job.finished and job.attempt <= self.attempt


def node_of_rank(job: Job, rank: int) -> str:
    """Where the rank is, or was last. Raises `Problem` where it never had a node."""
    if not 0 <= rank < job.world_size:
        raise Problem(404, f"job {job.name} has ranks 0 to {job.world_size - 1}, not {rank}.")
    seated = {seat.rank: seat.node for seat in job.seats}
    place = rank // job.plan.ranks_per_node
    node = seated.get(rank) or (job.places[place] if place < len(job.places) else "")
    if not node:
        raise Problem(404, f"rank {rank} of {job.name} has no node.", fix="Its logs stay on disk.")
    return node


@router.get("/jobs/{job}/ranks/{rank}/logs", response_class=StreamingResponse)
async def logs(
    job: str,
    rank: int,
    control: Driver,
    stream: Annotated[Literal["stdout", "stderr"], Query()] = "stdout",
    attempt: Annotated[int | None, Query(ge=0, description="Default: the newest.")] = None,
    tail: Annotated[int | None, Query(ge=0, le=100_000, description="Only the last lines.")] = None,
    follow: Annotated[bool, Query(description="Go on as it grows.")] = False,
) -> StreamingResponse:
    """What a rank wrote, as text/plain."""
    found = job_of(control, job)
    log = RankLog(control, found, found.attempt if attempt is None else attempt, rank, stream)
    offset = 0 if tail is None else -max(1, tail * LONGEST_LINE_BYTES)
    try:
        data, end = await log.read(offset)
    except TemporaryError as error:
        raise Problem(503, f"the log cannot be read now: {error}") from error
    first = (
        data if tail is None else b"".join(data.splitlines(keepends=True)[-tail:] if tail else [])
    )
    body = _pieces(log, first, end, follow=follow)
    return StreamingResponse(body, media_type="text/plain; charset=utf-8")


async def _pieces(log: RankLog, first: bytes, end: int, *, follow: bool) -> AsyncIterator[bytes]:
    """What was read, the rest of the file, and, where followed, what comes."""
    yield first
    while True:
        grows = log.may_grow
        try:
            data, end = await log.read(end)
        except TemporaryError as error:
            yield f"\n[the log cannot be read further now: {error}]\n".encode()
            return
        if data:
            yield data
        elif not (follow and grows):
            return
        else:
            await asyncio.sleep(LOOK_AGAIN_S)

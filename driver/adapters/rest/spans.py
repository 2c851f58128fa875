"""What a job's ranks did when, from the traces in the driver's folder."""

from pathlib import Path
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest.guard import PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.parameters import Parameters
from holdfast.driver.adapters.rest.view import View
from holdfast.traces import read

router = APIRouter(prefix=PREFIX, tags=["spans"], dependencies=[Depends(person)])

DEFAULT_LIMIT, MAX_LIMIT = 10_000, 200_000
LAST_S = 60.0
"""Shown where no time is named: what a job does now."""
RANKS = r"^\d{1,6}(,\d{1,6})*$"


class SpansParameters(Parameters):
    """Of a job's spans."""

    from_s: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Seconds since the job's submission. Default: the last minute before `to_s`.",
    )
    to_s: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="Seconds since the job's submission. Default: now.",
    )
    ranks: str | None = Field(
        default=None, pattern=RANKS, max_length=7_000, description="Only these, commas between."
    )
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Most spans.")


class SpanView(View):
    """What one rank did from a moment to another."""

    rank: int
    attempt: int
    node: str
    kind: str
    """"step", "forward", "backward", "collective", "p2p", "optimizer", "data", "save", "load",
    "pause", or "phase" where the script named it otherwise."""
    name: str
    """Which: "all_reduce"."""
    group: int
    """Hash of the members of a collective's group; 0: none."""
    step: int
    start_s: float
    """On the driver's clock, since the job's submission."""
    took_s: float
    waited_s: float
    """Of that the thread that trains waited for peers."""
    number: int
    """Which collective of its group, from 1; 0: none."""
    ended: bool
    """Whether it is over; else it was under way when it was last seen."""


class SpanList(View):
    job: str
    from_s: float
    to_s: float
    clock_error_s: dict[str, float]
    """How far each node's times may be off."""
    spans: list[SpanView]
    """In the order in which they began."""
    dropped: int
    """Spans that were lost, in the blocks that were read."""
    more: bool
    """Whether later ones were left out, for there are more than the limit."""
    troubles: list[str]
    """What could not be read, a sentence each."""


@router.get("/jobs/{job}/spans")
def spans(job: str, control: Driver, asked: Annotated[SpansParameters, Query()]) -> SpanList:
    """What its ranks did when. In a thread: it reads files."""
    found = job_of(control, job)
    age_s = max(0.0, control.now() - found.submitted_s)
    return told(control.settings.state, found.name, asked, age_s=age_s)


def told(root: Path, job: str, asked: SpansParameters, *, age_s: float) -> SpanList:
    """Of a job's traces in the run in `root`. `age_s`: how long ago it was submitted."""
    to_s = age_s if asked.to_s is None else asked.to_s
    from_s = max(0.0, to_s - LAST_S) if asked.from_s is None else asked.from_s
    ranks = None if asked.ranks is None else {int(rank) for rank in asked.ranks.split(",")}
    found = read.find(root, job, from_s=from_s, to_s=to_s, ranks=ranks, limit=asked.limit)
    return SpanList(
        job=job,
        from_s=from_s,
        to_s=to_s,
        clock_error_s=found.clock_error_s,
        spans=[SpanView(**msgspec.structs.asdict(each)) for each in found.spans],
        dropped=found.dropped,
        more=found.more,
        troubles=list(found.troubles),
    )

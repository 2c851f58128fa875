"""What a job's ranks did when, from the traces in the driver's folder."""

from pathlib import Path
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import Field

from holdfast.driver.adapters.rest.guard import PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.parameters import MAX_SEQUENCE, Parameters
from holdfast.driver.adapters.rest.problems import not_found
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.people import job_lives
from holdfast.traces import read
from holdfast.traces.axes import NONE, Axes

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
    incident: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SEQUENCE,
        description="One of the job's: from shortly before it began until it was found, where no "
        "time is named. Of more spans than the limit the last are told, and `from_s` is later.",
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
    axis: str
    """"dp", "pp" or "tp": of the parallelism that the job declares; "": of none, or not known."""


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
    found, until_s = job_of(control, job), None
    age_s = max(0.0, control.now() - found.submitted_s)
    if asked.incident is not None:
        since_s, until_s = until_found(control.state, found, asked.incident)
        asked = asked.model_copy(update={"from_s": _first(asked.from_s, since_s)})
    age_s = _first(until_s, age_s)
    return told(control.settings.state, found.name, asked, age_s=age_s, axes=axes_of(found))


def axes_of(job: Job) -> Axes:
    """As its ranks are laid out now, and as it was declared: it may go on with fewer."""
    return Axes(job.layout.topology, job.plan.topology)


def until_found(state: State, job: Job, incident: int) -> tuple[float, float]:
    """When that is. Raises `Problem` (404) where the job had no such incident."""
    known = {each.id: each for each in job_lives.incidents_of(state, job.name)}
    if incident not in known:
        raise not_found("incident", str(incident), map(str, known))
    return job_lives.until_found(known[incident], job)


def _first(given: float | None, other: float) -> float:
    return other if given is None else given


def told(
    root: Path, job: str, asked: SpansParameters, *, age_s: float, axes: Axes = NONE
) -> SpanList:
    """Of a job's traces in the run in `root`. `age_s`: how long ago it was submitted."""
    to_s = _first(asked.to_s, age_s)
    from_s = _first(asked.from_s, max(0.0, to_s - LAST_S))
    ranks = None if asked.ranks is None else {int(rank) for rank in asked.ranks.split(",")}
    newest = asked.incident is not None and asked.to_s is None
    found = read.find(
        root,
        job,
        from_s=from_s,
        to_s=to_s,
        ranks=ranks,
        limit=asked.limit,
        newest=newest,
        axes=axes,
    )
    return SpanList(
        job=job,
        from_s=found.spans[0].start_s if newest and found.more else from_s,
        to_s=to_s,
        clock_error_s=found.clock_error_s,
        spans=[SpanView(**msgspec.structs.asdict(each)) for each in found.spans],
        dropped=found.dropped,
        more=found.more and not newest,
        troubles=list(found.troubles),
    )

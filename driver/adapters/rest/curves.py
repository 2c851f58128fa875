"""A job's loss, speed and memory over its life, with what happened marked."""

from collections.abc import Iterable

from fastapi import APIRouter, Depends
from pydantic import Field

from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.model import Incident, Job
from holdfast.driver.people import job_lives
from holdfast.driver.watch.curve import Stored, holes

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"], dependencies=[Depends(person)])

MOST_MARKS = 100
"""The newest: more lines are no picture."""


class CurveMark(View):
    """What happened to the job."""

    incident: int
    at_s: float
    """When it was found, since the job's submission."""
    until_s: float | None
    """When the job was past where it had been; null where it was not, or not yet."""
    says: str


class CurvesView(View):
    """One value each moment; null where nobody told one then. Moments are at least `every_s` apart,
    and never more than 480."""

    job: str
    every_s: float
    at_s: list[float]
    """Since the job's submission."""
    step: list[int | None]
    """The last that all ranks had completed."""
    loss: list[float | None]
    step_s: list[float | None]
    """Median of the steps of late."""
    memory_bytes: list[int | None]
    """Resident, of the rank that has most, without its children."""
    gpu_memory_bytes: list[int | None]
    """In use of the GPU of which most is, on its nodes, as their drivers tell."""
    marks: list[CurveMark]
    """Faults of the job, the oldest first."""
    missing: list[str] = Field(max_length=16)
    """What is not known, a sentence each."""


@router.get("/{job}/curves", dependencies=[NO_PARAMETERS])
def curves(job: str, control: Driver) -> CurvesView:
    """Its loss, speed and memory so far, thinned. In a thread: it may read a file."""
    found = job_of(control, job)
    incidents = job_lives.incidents_of(control.state, found.name)
    return curves_view(found, control.curves.told(found), incidents, control.curves.trouble)


def curves_view(
    job: Job, stored: Stored | None, incidents: Iterable[Incident], trouble: str = ""
) -> CurvesView:
    """Pure. `trouble`: why what is noted now is in no file."""
    known = stored or Stored(
        job_s=0, every_s=0, at_s=[], step=[], loss=[], step_s=[], memory_bytes=[]
    )
    return CurvesView(
        job=job.name,
        every_s=known.every_s,
        at_s=[round(each, 3) for each in known.at_s],
        step=_whole(known.step),
        loss=known.loss,
        step_s=known.step_s,
        memory_bytes=_whole(known.memory_bytes),
        gpu_memory_bytes=_whole(known.gpu_memory_bytes or [None] * len(known.at_s)),
        marks=[_mark(each, job) for each in incidents if each.faults][-MOST_MARKS:],
        missing=list(_missing(known, trouble)),
    )


def _whole(values: Iterable[float | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in values]


def _mark(incident: Incident, job: Job) -> CurveMark:
    resumed = incident.resumed_s
    return CurveMark(
        incident=incident.id,
        at_s=max(0.0, incident.found_s - job.submitted_s),
        until_s=None if resumed is None else max(0.0, resumed - job.submitted_s),
        says=incident.latest or incident.summary,
    )


def _missing(known: Stored, trouble: str) -> Iterable[str]:
    if not known.at_s:
        yield "nothing was noted of it: no rank of it was heard of, or no driver kept its curves."
        return
    if known.at_s[0] > 2 * known.every_s + 10:
        yield f"nothing was noted before {known.at_s[0]:,.0f} s."
    for begin_s, end_s in holes(known):
        yield (
            f"nothing was noted from {begin_s:,.0f} s to {end_s:,.0f} s: it had no ranks, or no "
            "driver was there."
        )
    for name, values in (("loss", known.loss), ("step time", known.step_s)):
        if not any(value is not None for value in values):
            yield f"no {name} was told."
    if trouble:
        yield f"what is noted now is lost with this driver: {trouble}."

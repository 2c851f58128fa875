"""Routes about bursts: take one of a node now, list a job's, look at one, as figures or picture."""

from itertools import pairwise
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from holdfast.driver.adapters.rest.body import read_json
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.nodes import node_of
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.people.bursts import Busy
from holdfast.driver.people.control import Control
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.page.draw import burst_svg, themes
from holdfast.protocol.mistakes import BadDocument, Mistake, shown
from holdfast.traces.bursts import kept, said
from holdfast.traces.bursts.record import MOST_SECONDS, Burst, NoBurst

router = APIRouter(prefix=PREFIX, tags=["bursts"], dependencies=[Depends(person)])

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "minimum": 1, "maximum": MOST_SECONDS},
    },
}


class BurstNote(View):
    """Which burst it is."""

    id: int
    """Counted from 1 for each job."""
    node: str
    began_at: str
    """Time of day, UTC."""
    why: str
    """Who asked, or the incident."""
    incident: int | None
    rails: list[str]
    samples: int


class TakenBurst(View):
    """A burst that was just taken, and whose."""

    job: str
    burst: BurstNote


class BurstList(View):
    job: str
    items: list[BurstNote]
    """Oldest first."""


class RailView(View):
    """One rail: figures of both directions together, and the bytes between samples of each."""

    name: str
    mean_bytes_per_s: float
    peak_bytes_per_s: float
    """In the busiest millisecond."""
    idle: float
    """Share of the milliseconds with less than a hundredth of the peak."""
    gap_s: float
    """The longest idle time."""
    gap_at_s: float
    """When it began."""
    errors: int
    drops: int
    period_s: float | None
    """After which its traffic is like itself again; null where it has no rhythm."""
    received_bytes: list[int]
    sent_bytes: list[int]


class BurstView(View):
    """A node's rails, each millisecond."""

    job: str
    burst: BurstNote
    says: str
    """What it shows, in words."""
    seconds: float
    period_p50_s: float
    """Between two samples, at the median; a millisecond is meant."""
    period_p99_s: float
    missed: int
    """Milliseconds in which nobody looked."""
    cpu_s: float
    """That it took of the node's processors."""
    degraded: str
    """What could not be done as it should; else empty."""
    at_us: list[int]
    """When each sample was taken, since the first."""
    rails: list[RailView]


@router.post("/nodes/{node}/burst", dependencies=[NO_PARAMETERS])
async def take_burst(node: str, request: Request, control: Driver) -> TakenBurst:
    """Count what each rail of the node moves, each millisecond, from now on; answered at its end.

    Nothing is stopped for it, and nothing written down but the burst.
    """
    seconds = checked_seconds(await read_json(request))
    name = node_of(control, node).name
    if (job := job_on(control, name)) is None:
        raise no_job_there(name)
    try:
        note = await control.bursts.take(job, name, seconds, "a person asked", incident=None)
    except Busy:
        raise being_taken(name) from None
    except (TemporaryError, PermanentError) as error:
        raise none_taken(str(error)) from error
    return TakenBurst(job=job, burst=_note_view(note))


@router.get("/jobs/{job}/bursts", dependencies=[NO_PARAMETERS])
def list_bursts(job: str, control: Driver) -> BurstList:
    """The bursts of a job's nodes that are kept."""
    return told(control, job_of(control, job).name)


@router.get("/jobs/{job}/bursts/{burst}.svg", dependencies=[NO_PARAMETERS])
def draw_burst(job: str, burst: int, control: Driver) -> Response:
    """One burst as a picture."""
    found = _read(control, job_of(control, job).name, burst)
    drawn = burst_svg.drawn(found.model_dump(), theme=themes.LIGHT)
    return Response(drawn, media_type="image/svg+xml")


@router.get("/jobs/{job}/bursts/{burst}", dependencies=[NO_PARAMETERS])
def get_burst(job: str, burst: int, control: Driver) -> BurstView:
    """One burst with all its samples."""
    return _read(control, job_of(control, job).name, burst)


def told(control: Control, job: str) -> BurstList:
    notes = kept.notes(control.settings.state, job)
    return BurstList(job=job, items=[_note_view(each) for each in notes])


def job_on(control: Control, node: str) -> str | None:
    """The job that has the node now."""
    jobs = control.state.jobs.values()
    return next((job.name for job in jobs if not job.finished and node in job.places), None)


def checked_seconds(body: Any) -> float:
    """Raises `BadDocument`."""
    asked = body.get("seconds", MOST_SECONDS) if isinstance(body, dict) else None
    if isinstance(asked, (int, float)) and asked is not True and 1 <= asked <= MOST_SECONDS:
        return float(asked)
    why = "it says for how long to count."
    fix = f"Send 1 to {MOST_SECONDS:g} seconds."
    raise BadDocument([Mistake(field="seconds", value=shown(asked), why=why, fix=fix)])


def no_job_there(node: str) -> Problem:
    sentence = f"{node} runs no job, and bursts are kept with a job's traces."
    return Problem(409, sentence, fix="Which nodes do: holdfast nodes")


def being_taken(node: str) -> Problem:
    return Problem(429, f"a burst of {node} is being taken now.", fix="Ask again in 10 s.")


def none_taken(why: str) -> Problem:
    return Problem(503, f"there is no burst: {why}.", fix="Ask again.")


def no_burst(job: str, burst: int) -> Problem:
    sentence = f"{job} has no burst {burst}."
    return Problem(404, sentence, fix=f"Those that are kept: holdfast burst ls {job}")


def unreadable_burst(job: str, burst: int, why: str) -> Problem:
    return Problem(503, f"burst {burst} of {job} {why}.", fix="Take another: holdfast burst NODE")


def _read(control: Control, job: str, number: int) -> BurstView:
    try:
        return view(job, *kept.read(control.settings.state, job, number))
    except FileNotFoundError:
        raise no_burst(job, number) from None
    except (NoBurst, OSError) as error:
        raise unreadable_burst(job, number, str(error)) from error


def view(job: str, note: kept.Note, burst: Burst) -> BurstView:
    """Pure."""
    figures = [said.rail_said(burst, rail) for rail in burst.rails]
    gaps = sorted(after - before for before, after in pairwise(burst.at_us)) or [0]
    return BurstView(
        job=job,
        burst=_note_view(note),
        says=said.sentence(burst, figures),
        seconds=burst.seconds,
        period_p50_s=gaps[len(gaps) // 2] / 1e6,
        period_p99_s=gaps[len(gaps) * 99 // 100] / 1e6,
        missed=burst.missed,
        cpu_s=burst.cpu_s,
        degraded=burst.degraded,
        at_us=burst.at_us,
        rails=[
            RailView(
                name=rail.name,
                mean_bytes_per_s=each.mean * 1e3,
                peak_bytes_per_s=each.peak * 1e3,
                idle=each.idle,
                gap_s=each.gap_ms / 1e3,
                gap_at_s=each.gap_at_ms / 1e3,
                errors=each.errors,
                drops=each.drops,
                period_s=None if each.period_ms is None else each.period_ms / 1e3,
                received_bytes=rail.received,
                sent_bytes=rail.sent,
            )
            for rail, each in zip(burst.rails, figures, strict=True)
        ],
    )


def _note_view(note: kept.Note) -> BurstNote:
    return BurstNote(
        id=note.id,
        node=note.node,
        began_at=note.began_at,
        why=note.why,
        incident=note.incident,
        rails=note.rails,
        samples=note.samples,
    )

"""Routes about bursts: take one of a node now, list a job's, look at one, as figures or picture."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from holdfast.driver.adapters.rest.body import read_json
from holdfast.driver.adapters.rest.burst_views import (
    BurstList,
    BurstView,
    TakenBurst,
    listed,
    note_view,
    one,
)
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.nodes import node_of
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.people.bursts import Busy
from holdfast.driver.people.control import Control
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.page.draw import burst_svg, themes
from holdfast.protocol.mistakes import BadDocument, Mistake, shown
from holdfast.traces.bursts.record import MOST_SECONDS

router = APIRouter(prefix=PREFIX, tags=["bursts"], dependencies=[Depends(person)])

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "minimum": 1, "maximum": MOST_SECONDS},
    },
}


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
    except TemporaryError as error:
        raise none_taken(str(error)) from error
    except PermanentError as error:
        raise takes_none(str(error)) from error
    return TakenBurst(job=job, burst=note_view(note))


@router.get("/jobs/{job}/bursts", dependencies=[NO_PARAMETERS])
def list_bursts(job: str, control: Driver) -> BurstList:
    """The bursts of a job's nodes that are kept."""
    return listed(control.settings.state, job_of(control, job).name)


@router.get("/jobs/{job}/bursts/{burst}.svg", dependencies=[NO_PARAMETERS])
def draw_burst(job: str, burst: int, control: Driver) -> Response:
    """One burst as a picture."""
    found = one(control.settings.state, job_of(control, job).name, burst)
    drawn = burst_svg.drawn(found.model_dump(), theme=themes.LIGHT)
    return Response(drawn, media_type="image/svg+xml")


@router.get("/jobs/{job}/bursts/{burst}", dependencies=[NO_PARAMETERS])
def get_burst(job: str, burst: int, control: Driver) -> BurstView:
    """One burst with all its samples."""
    return one(control.settings.state, job_of(control, job).name, burst)


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


def takes_none(why: str) -> Problem:
    return Problem(409, f"there is no burst: {why}.", fix="Bring Holdfast up to date there.")

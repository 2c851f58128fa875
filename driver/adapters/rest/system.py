"""Routes without a token: is it alive, can it work, its metrics; and the schema of a job."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from holdfast.driver.adapters.metrics.driver import Metrics
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver
from holdfast.driver.adapters.rest.view import View
from holdfast.protocol import jobspec

router = APIRouter(tags=["system"], dependencies=[NO_PARAMETERS])
schema_router = APIRouter(prefix=PREFIX, tags=["system"], dependencies=[NO_PARAMETERS])


class Ready(View):
    """Whether new work is taken."""

    ready: bool
    why: str
    """Why not, or what keeps taken work waiting; empty where all is well."""
    stale: bool = False
    """Nothing can be written down now, so that nothing is decided: what is told may be old."""


_CLOSED = {
    "ready": False,
    "why": "the journal cannot be written: No space left on device.",
    "stale": True,
}


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """The process answers."""
    return "ok\n"


@router.get(
    "/readyz",
    responses={
        503: {
            "model": Ready,
            "description": "New work is not taken now.",
            "content": {"application/json": {"example": _CLOSED}},
        }
    },
)
async def readyz(control: Driver, response: Response) -> Ready:
    """Whether new work is taken; if not, 503 with the reason. `why` may also tell of no nodes."""
    why = control.accepting
    response.status_code = 200 if why is None else 503
    return Ready(ready=why is None, why=why or control.away(), stale=control.stale)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, control: Driver) -> Response:
    """For Prometheus, in its text format."""
    collected: Metrics = request.app.state.metrics
    return Response(await collected.scrape(control), media_type=CONTENT_TYPE_LATEST)


@schema_router.get("/schema")
async def schema() -> dict[str, Any]:
    """The JSON schema of a TrainingJob: each field with its sentence, default and bound."""
    return jobspec.schema()

"""Routes without a token: is it alive, can it work, its metrics; and the schema of a job."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from holdfast.driver.adapters.rest.guard import Driver
from holdfast.driver.adapters.rest.metrics import Metrics
from holdfast.protocol import jobspec

router = APIRouter(tags=["system"])
schema_router = APIRouter(tags=["system"])


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """The process answers."""
    return "ok\n"


@router.get("/readyz")
async def readyz(control: Driver) -> JSONResponse:
    """Whether new work is taken; if not, 503 with the reason. `why` may also tell of no nodes."""
    why = control.accepting
    told = why or control.away()
    return JSONResponse({"ready": why is None, "why": told}, 200 if why is None else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, control: Driver) -> Response:
    """For Prometheus, in its text format."""
    collected: Metrics = request.app.state.metrics
    return Response(await collected.scrape(control), media_type=CONTENT_TYPE_LATEST)


@schema_router.get("/schema")
async def schema() -> dict[str, Any]:
    """The JSON schema of a TrainingJob: each field with its sentence, default and bound."""
    return jobspec.schema()

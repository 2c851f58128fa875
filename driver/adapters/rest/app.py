"""`make_app(control)`: the driver's REST application; `driver.main` adds the nodes' side to it."""

from typing import Any

from fastapi import APIRouter, FastAPI

from holdfast.driver.adapters.rest import (
    attempts,
    brake,
    docs,
    events,
    evidence,
    facts,
    incidents,
    jobs,
    logs,
    nodes,
    problems,
    stories,
    system,
)
from holdfast.driver.adapters.rest.guard import PREFIX
from holdfast.driver.adapters.rest.metrics import Metrics
from holdfast.driver.adapters.rest.pages import Pages
from holdfast.driver.people.control import Control

DESCRIPTION = """Keeps large training jobs running. Errors are problems (RFC 9457) with `errors`:
each mistake with its field, value, why, and the fix. See docs/api.md."""


class Application(FastAPI):
    """FastAPI with a description that has examples and problems at every operation."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; made once, by what no driver needs that is not asked for it."""
        if self.openapi_schema is None:
            from holdfast.driver.adapters.rest import description

            self.openapi_schema = description.completed(super().openapi(), PREFIX)
        return self.openapi_schema


def make_app(control: Control) -> FastAPI:
    """The application over one driver; it holds nothing but the metrics' counters."""
    app = Application(
        title="Holdfast driver",
        version="v1alpha1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.state.control = control
    app.state.metrics = Metrics()
    app.state.pages = Pages(control, events.written)
    problems.install(app)
    below = APIRouter(prefix=PREFIX)
    for module in (jobs, attempts, logs, stories, evidence, facts, nodes, brake, incidents, events):
        below.include_router(module.router)
    below.include_router(system.schema_router)
    app.include_router(below)
    app.include_router(system.router)
    docs.install(app)
    return app

"""`make_app(control)`: the driver's REST application; `driver.main` adds the nodes' side to it."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute

from holdfast.driver.adapters.rest import (
    attempts,
    brake,
    calibrations,
    diagnoses,
    digests,
    docs,
    events,
    evidence,
    facts,
    incidents,
    jobs,
    logs,
    nodes,
    problems,
    stacks,
    stories,
    system,
    webhooks,
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


def routes() -> Iterator[BaseRoute]:
    """As their modules made them, each with its whole path: `include_router` would have every
    signature read once more when the first request comes, .03 s of a driver's start.
    """
    about_jobs = (jobs, attempts, logs, stacks, stories, evidence, facts)
    for module in (
        *about_jobs,
        nodes,
        diagnoses,
        calibrations,
        brake,
        incidents,
        digests,
        webhooks,
        events,
    ):
        yield from module.router.routes
    yield from system.schema_router.routes
    yield from system.router.routes


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
    app.state.sampler = stacks.Sampler(control)
    problems.install(app)
    app.router.routes += routes()
    docs.install(app)
    return app

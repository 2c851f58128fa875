"""`make_app(control)`: the driver's REST application; `driver.main` adds the nodes' side to it."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from starlette.routing import BaseRoute

from holdfast.driver.adapters.metrics.driver import Metrics
from holdfast.driver.adapters.metrics.requests import Counted
from holdfast.driver.adapters.page import changing, reading
from holdfast.driver.adapters.page.crowd import Crowd
from holdfast.driver.adapters.page.facts import Here
from holdfast.driver.adapters.page.safety import Safe, names_of
from holdfast.driver.adapters.page.sessions import Sessions
from holdfast.driver.adapters.page.tracing import Endings
from holdfast.driver.adapters.rest import (
    attempts,
    brake,
    bursts,
    calibrations,
    codes,
    curves,
    diagnoses,
    digests,
    docs,
    events,
    evidence,
    facts,
    goodput,
    incidents,
    jobs,
    logs,
    nodes,
    problems,
    ranks,
    spans,
    stacks,
    stories,
    system,
    webhooks,
)
from holdfast.driver.adapters.rest.guard import PREFIX
from holdfast.driver.adapters.rest.pages import Pages
from holdfast.driver.people.control import Control
from holdfast.driver.settings import Settings

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
    looked_at = (ranks, curves, attempts, logs, spans, bursts, stacks, stories)
    of_jobs = (jobs, *looked_at, evidence, facts, goodput)
    of_nodes = (nodes, diagnoses, calibrations, brake)
    for module in (*of_jobs, *of_nodes, incidents, digests, webhooks, events, codes):
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
    app.state.rank_answers = ranks.Kept()
    app.add_middleware(Counted, requests=app.state.metrics.requests)
    app.state.pages = Pages(control, events.written)
    app.state.sampler = stacks.Sampler(control)
    app.state.facts = Here(control)
    app.state.crowd = Crowd(control.clock)
    app.state.endings = Endings()
    app.state.sessions = Sessions(_own_token(control.settings), control.clock)
    problems.install(app)
    app.router.routes += routes()
    app.router.routes += [*reading.routes(), *changing.routes()]
    docs.install(app)
    app.add_middleware(Safe, names=names_of(control.settings.urls, control.settings.hosts))
    return app


def _own_token(settings: Settings) -> str:
    """The driver's own token of people; "" where it has none, as in tests."""
    path = settings.paths.user_token
    return path.read_text().strip() if path.exists() else ""

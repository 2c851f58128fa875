"""How many requests there were, how they ended, and how long they took, by operation.

Around the REST application. An operation is a route's own path, so that names of jobs make no new
series; what fits none is one of them.
"""

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
"""An answer from the state takes a millisecond, a story of a large job a second."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER, NO_ROUTE = "other", "none"


class Requests:
    """Counts into a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._count = Counter(
            "holdfast_requests",
            "Requests by operation and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._took = Histogram(
            "holdfast_request_seconds",
            "Until an answer began.",
            ["route"],
            buckets=BUCKETS_S,
            registry=registry,
        )

    def note(self, scope: Scope, status: int, took_s: float) -> None:
        """One answer has begun."""
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        self._count.labels(method, route, str(status)).inc()
        self._took.labels(route).observe(took_s)


class Counted:
    """The application that it is put around, counted."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.note(scope, message["status"], perf_counter() - began_s)
            await send(message)

        await self._app(scope, receive, sent)

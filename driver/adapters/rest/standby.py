"""What a driver in waiting answers: who leads, with 503, to people and nodes alike.

Made by `driver.main`, served by `driver.lead.standby`. Must not know anything of jobs.
"""

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import PlainTextResponse, Response

from holdfast.driver.adapters.rest import problems
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.protocol.leading import LEADER

METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE"]


class Waiting:
    """The application, and `why` nothing is led here, which changes."""

    def __init__(self) -> None:
        self.why = "nobody is known to lead yet"
        self._headers: dict[str, str] = {}
        self.app = FastAPI(title="Holdfast driver in waiting", openapi_url=None)
        problems.install(self.app)
        self.app.add_api_route("/healthz", _healthz, response_class=PlainTextResponse)
        self.app.add_api_route("/metrics", _metrics, response_class=PlainTextResponse)
        self.app.add_api_route("/{path:path}", self._answer, methods=METHODS)
        self.app.add_api_websocket_route("/{path:path}", self._refuse)

    def say(self, why: str, url: str) -> None:
        """`url`: where the driver that leads is, "" where nobody knows; nodes go there at once."""
        self.why = why
        self._headers = {LEADER: url} if url else {}

    def _told(self, request: Request) -> Response:
        why = f"this driver stands by: {self.why}."
        problem = Problem(503, why, fix="Ask the driver that leads, or try again later.")
        answer = problems.answer(request, problem)
        answer.headers.update(self._headers)
        return answer

    async def _answer(self, request: Request) -> Response:
        return self._told(request)

    async def _refuse(self, socket: WebSocket) -> None:
        request = Request({**socket.scope, "type": "http", "method": "GET"})
        await socket.send_denial_response(self._told(request))


async def _healthz() -> str:
    """The process answers."""
    return "ok\n"


async def _metrics() -> str:
    """No figures: those are the leader's. Prometheus is told that this driver is not away."""
    return "# This driver stands by; the one that leads has the figures.\n"

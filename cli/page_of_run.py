"""The page of a run that is over, read from its folder and served on this machine. Read-only.

Called by the command `page`. The pages are the driver's own, over the same answers as those of
`status`, `why` and `story` without a driver. One event loop does all of it: it has one reader.
"""

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette

from holdfast.cli import asking
from holdfast.cli.errors import Stopped
from holdfast.cli.offline import Recorded
from holdfast.cli.output import complain, say
from holdfast.driver.adapters.page import reading
from holdfast.driver.adapters.page.crowd import Crowd
from holdfast.driver.adapters.page.past import Past, last_of
from holdfast.driver.adapters.page.safety import Safe
from holdfast.driver.adapters.page.sessions import Sessions
from holdfast.driver.adapters.page.tracing import Endings
from holdfast.driver.adapters.rest.goodput import DEFAULT_LIMIT
from holdfast.driver.adapters.rest.problems import Problem, not_found
from holdfast.driver.people.access import Right
from holdfast.driver.serve.server import Server
from holdfast.kit.clock import SystemClock
from holdfast.page.logs import READ_BYTES, pane
from holdfast.page.pages import Log
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

T = TypeVar("T")

READER = "whoever has the address"


def serve(root: Path, *, port: int) -> int:
    """Until Ctrl-C or SIGTERM."""
    facts = OfFolder(root)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        fix = "Give another --port, or none."
        raise Stopped(f"--port: {port}: {error.strerror}.", fix=fix) from error
    with listening:
        asyncio.run(_serve(app_of(facts), listening))
    return exitcodes.OK


def app_of(facts: "OfFolder") -> Starlette:
    """The pages that show, and no others."""
    app = Starlette(routes=reading.routes())
    clock = SystemClock()
    app.state.facts = facts
    app.state.crowd = Crowd(clock)
    app.state.endings = Endings()
    app.state.sessions = Sessions("", clock)
    app.add_middleware(Safe, names=frozenset())
    return app


async def _serve(app: Starlette, listening: socket.socket) -> None:
    server = Server(app)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.tell)
    host, port = listening.getsockname()[:2]
    say(f"page http://{host}:{port}/?code={app.state.sessions.code(READER)}")
    complain("nothing runs here now: this is read from what the driver wrote down; Ctrl-C ends it")
    await server.serve([listening])


class OfFolder:
    """A run's folder, as if its driver were asked: see `Facts`. A session may see it all."""

    live = False
    sequence = 0

    def __init__(self, root: Path) -> None:
        self._root = root
        self._recorded = Recorded(root)

    def said(self) -> str:
        return "Nothing runs here now: this is read from what the driver wrote down."

    async def may(self, token: str, right: Right, job: str = "") -> str:
        return str(_found(lambda: self._recorded.job(job))["name"]) if job else ""

    async def jobs(self) -> list[dict[str, Any]]:
        return [_with_state(job) for job in self._recorded.jobs()]

    async def job(self, name: str) -> dict[str, Any]:
        return _with_state(_found(lambda: self._recorded.job(name)))

    async def incidents(self, job: str) -> list[dict[str, Any]]:
        return self._recorded.incidents(job)

    async def why_job(self, name: str) -> dict[str, Any]:
        told = _found(lambda: self._recorded.why(name))
        return {**told, "fix": ""}  # nothing is to be done any more

    async def goodput(self, job: str) -> dict[str, Any]:
        return _found(lambda: self._recorded.goodput(job))

    async def fleet_goodput(self, since_s: float) -> dict[str, Any]:
        return self._recorded.fleet_goodput(since_s=since_s, limit=DEFAULT_LIMIT)

    async def story(self, job: str) -> dict[str, Any]:
        return _found(lambda: self._recorded.story(job))

    async def curves(self, job: str) -> dict[str, Any]:
        return _found(lambda: self._recorded.curves(job))

    async def spans(self, job: str, last_s: float) -> Past:
        """In the same thread as all else here: it has one reader."""
        age_s = (await self.job(job))["age_s"]
        axes = self._recorded.axes(job)
        return last_of(self._root, job, age_s=age_s, last_s=last_s, axes=axes)

    async def spans_until(self, job: str, incident: int) -> Past:
        return _found(lambda: self._recorded.spans_until(job, incident))

    async def bursts(self, job: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._recorded.bursts(job)["items"]
        return items

    async def burst(self, job: str, number: int) -> dict[str, Any]:
        return _found(lambda: self._recorded.burst(job, number))

    async def nodes(self) -> list[dict[str, Any]]:
        return self._recorded.nodes()

    async def node(self, name: str) -> dict[str, Any]:
        known = {node["name"]: node for node in self._recorded.nodes()}
        if name not in known:
            raise not_found("node", name, known)
        return known[name]

    async def why_node(self, name: str) -> dict[str, Any]:
        return _found(lambda: self._recorded.why(name))

    async def brake(self) -> dict[str, Any]:
        return self._recorded.brake()

    async def log(
        self, token: str, job: str, rank: int, stream: str, attempt: int | None = None
    ) -> Log:
        """As its node wrote it here, of the newest attempt where none is named."""
        meant = max(1, (await self.job(job))["attempt"]) if attempt is None else attempt
        path = RunPaths(self._root).rank(job, meant, rank) / f"{stream}.log"
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - READ_BYTES))
                return Log(rank, stream, meant, pane(file.read(), whole=size <= READ_BYTES))
        except OSError as error:
            return Log(rank, stream, meant, pane(b"", whole=True), f"{path}: {error.strerror}.")

    async def done(self, name: str, sequence: int) -> str:
        return ""


def _with_state(job: dict[str, Any]) -> dict[str, Any]:
    """With what became of one that has not ended."""
    return {**job, "state": asking.state_of(job, alive=False)}


def _found(ask: Callable[[], T]) -> T:
    """The answer. Raises `Problem` where there is none, in the words of the command."""
    try:
        return ask()
    except Stopped as stopped:
        raise Problem(404, stopped.sentence, fix=stopped.fix) from stopped

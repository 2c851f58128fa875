"""What a kubelet asks, on a port of its own: there it does not stand behind a thousand nodes.

Made by `driver.main` once the driver has its rights, until its end, whether it leads, stands by, or
waits for a database before it can do either: a rollout of one that lacks its rights or its database
stops at its first pod. Without TLS and tokens, for it says no more than whether all is well. Must
not find that out itself.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.driver.serve.server import Server


class Readiness:
    """`why` says why no work is taken, None where it is; `away` what keeps taken work waiting;
    `able` whether this driver leads, or stands by and could.
    """

    def __init__(self) -> None:
        self.able = False
        self.why: Callable[[], str | None] = lambda: "this driver starts, or stands by"
        self.away: Callable[[], str] = lambda: ""
        self.stale: Callable[[], bool] = lambda: False

    def app(self) -> Starlette:
        """`/healthz` and `/readyz`, which answer as those of `adapters.rest` do, and `/ablez`."""
        asked = {"/healthz": _healthz, "/readyz": self._readyz, "/ablez": self._ablez}
        return Starlette(routes=[Route(path, answer) for path, answer in asked.items()])

    async def _readyz(self, _: Request) -> Response:
        why = self.why()
        said = {"ready": why is None, "why": why or self.away(), "stale": self.stale()}
        return JSONResponse(said, 200 if why is None else 503)

    async def _ablez(self, _: Request) -> Response:
        return JSONResponse({"able": self.able}, 200 if self.able else 503)


async def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


@asynccontextmanager
async def probed(at: socket.socket | None) -> AsyncIterator[Readiness]:
    """Answer on this socket, if there is one, while within."""
    readiness = Readiness()
    if at is None:
        yield readiness
        return
    server = Server(readiness.app())
    serving = asyncio.create_task(server.serve([at]))
    try:
        yield readiness
    finally:
        server.should_exit = True
        await serving

"""Where the API server reads containers' output: the port behind `kubectl logs`.

Run by `serve`, one port of this machine's loopback for all nodes. HTTPS as every kubelet's, with
the control plane's own certificate. Must serve nothing but logs.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from aiohttp import web

from holdfast.lab.emulator.kubelet.orders import Life

LOOK_S = 0.1
PIECE_BYTES = 65_536


class LoggedPod(Protocol):
    """What is asked of a pod."""

    lives: dict[str, Life]

    def log(self, container: str, attempt: int) -> str: ...


class Node(Protocol):
    """What is asked of a node."""

    def pod(self, namespace: str, name: str) -> LoggedPod | None: ...


class Logs:
    """The port; `port` is known once `served`."""

    def __init__(self, certificates: Path, nodes: Mapping[str, Node]) -> None:
        self._certificates = certificates
        self._nodes = nodes
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve within it. Raises `OSError` where the certificate is not there."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(
            self._certificates / "server.crt", self._certificates / "server.key"
        )
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        where, query = request.match_info, request.query
        found = [node.pod(where["namespace"], where["pod"]) for node in self._nodes.values()]
        pod = next((one for one in found if one is not None), None)
        life = pod.lives.get(where["container"]) if pod else None
        if pod is None or life is None:
            raise web.HTTPNotFound(text=f"container {where['container']} has not started")
        attempt = life.attempt - (query.get("previous") == "true")
        path = Path(pod.log(where["container"], attempt))
        if not path.exists():
            raise web.HTTPBadRequest(text="there is no previous life of it with a log")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        lines = int(query["tailLines"]) if "tailLines" in query else None
        follows = query.get("follow") == "true"

        def lives() -> bool:
            now = pod.lives.get(where["container"])
            return follows and now is not None and now.attempt == attempt and not now.finished_at_s

        async for piece in _pieces(path, lines, lives):
            await response.write(piece)
        return response


async def _pieces(path: Path, lines: int | None, lives: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The file, or its last `lines`, and what is added while `lives` says so."""
    with path.open("rb") as file:
        if lines is not None:
            file.seek(start_of_last(file.read(), lines))
        while True:
            going_on = lives()
            while piece := file.read(PIECE_BYTES):
                yield piece
            if not going_on:
                return
            await asyncio.sleep(LOOK_S)


def start_of_last(content: bytes, lines: int) -> int:
    """Where the last `lines` lines begin. Pure."""
    last = content.splitlines(keepends=True)[-lines:] if lines else []
    return len(content) - sum(map(len, last))

"""What stands between one client and the API server: passes on, or answers badly or slowly for a
while.

A process of its own, so that it can be stopped and continued from outside. Started by the
laboratory for a driver; whoever does a fault writes how it answers (`turn`). Must not change what
it passes on.
"""

import argparse
import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from holdfast.kit.files import write_atomic
from holdfast.kit.owned import when_owner_is_gone
from holdfast.kit.together import until_first

HOST = "127.0.0.1"
NOT_PASSED_ON = frozenset({"connection", "content-length", "host", "transfer-encoding"})
"""Headers of one hop (RFC 9110, 7.6.1), and those that are made anew."""
HTML = "<html><body>502 Bad Gateway</body></html>"
LATE_S = 3.0
LOOK_S = 0.5
MAX_BODY_BYTES = 16 << 20


class Mood(msgspec.Struct):
    """How it answers: a share of all requests badly, each in one of the ways of a bad day, and a
    share late or never.
    """

    bad_share: float = 0.0
    slow_share: float = 0.0


class Answered(msgspec.Struct):
    """Requests that it answered badly, late, and never; and the longest that it stood still."""

    bad: int = 0
    late: int = 0
    never: int = 0
    longest_pause_s: float = 0.0


def turn(folder: Path, mood: Mood) -> None:
    """Have the proxy of this folder answer so from now on."""
    write_atomic(_mood_of(folder), msgspec.json.encode(mood))


def counted(folder: Path) -> Answered:
    """What the proxy of this folder has done by now."""
    try:
        return msgspec.json.decode(_counts_of(folder).read_bytes(), type=Answered)
    except FileNotFoundError:
        return Answered()


class Proxy:
    """One, from `serve` to its cancellation."""

    def __init__(self, to: str, folder: Path, upstream: aiohttp.ClientSession) -> None:
        self._to = to
        self._folder = folder
        self._upstream = upstream
        self._random = random.Random(0)
        self._answered = Answered()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        mood, drawn = self._mood(), self._random.random()
        if drawn < mood.bad_share:
            self._count(bad=1)
            return self._random.choice(_BAD)(request)
        try:
            if drawn < mood.bad_share + mood.slow_share:
                slowly = self._random.choice((_late, self._unheard, _never))
                self._count(late=slowly is _late, never=slowly is not _late)
                await slowly(request)
            return await self._pass_on(request)
        except aiohttp.ClientConnectionError as error:
            return web.Response(status=502, text=str(error))

    async def notice_pauses(self) -> None:
        """For ever. A pause of a busy machine is none of a fault's length."""
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            pause_s = time.monotonic() - before_s - LOOK_S
            if pause_s > max(LOOK_S, self._answered.longest_pause_s):
                self._answered.longest_pause_s = pause_s
                self._count()

    def _count(self, *, bad: int = 0, late: int = 0, never: int = 0) -> None:
        self._answered.bad += bad
        self._answered.late += late
        self._answered.never += never
        write_atomic(_counts_of(self._folder), msgspec.json.encode(self._answered))

    async def _unheard(self, request: web.Request) -> None:
        """What is asked is done, and whoever asked never hears of it."""
        async with self._ask(request):
            pass
        await _never(request)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        """The answer as it comes: a watch has no end."""
        async with self._ask(request) as answer:
            response = web.StreamResponse(status=answer.status)
            response.headers.extend({k: v for k, v in answer.headers.items() if _is_passed_on(k)})
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    @asynccontextmanager
    async def _ask(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """The API server, for whoever asked us."""
        body = await request.read()
        headers = {key: value for key, value in request.headers.items() if _is_passed_on(key)}
        url = f"{self._to}{request.raw_path}"
        async with self._upstream.request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        ) as answer:
            yield answer

    def _mood(self) -> Mood:
        try:
            return msgspec.json.decode(_mood_of(self._folder).read_bytes(), type=Mood)
        except FileNotFoundError:
            return Mood()


async def _late(_request: web.Request) -> None:
    await asyncio.sleep(LATE_S)


async def _never(_request: web.Request) -> None:
    """Until whoever asked gives up, which ends it."""
    await asyncio.Event().wait()


def _too_many(_request: web.Request) -> web.Response:
    return _status(429, "TooManyRequests", headers={"Retry-After": "1"})


def _internal(_request: web.Request) -> web.Response:
    return _status(500, "InternalError")


def _bad_gateway(_request: web.Request) -> web.Response:
    return web.Response(status=502, text=HTML, content_type="text/html")


def _conflict(request: web.Request) -> web.Response:
    """What a write is answered that another overtook; a read has no such answer."""
    overtaken = request.method == "PATCH" and "/nodes/" in request.path
    return _status(409, "Conflict") if overtaken else _internal(request)


_BAD = (_too_many, _internal, _bad_gateway, _conflict)


def _status(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    told = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": "made up by a proxy",
        "reason": reason,
        "code": code,
    }
    return web.json_response(told, status=code, headers=headers)


def _is_passed_on(header: str) -> bool:
    return header.lower() not in NOT_PASSED_ON


def _mood_of(folder: Path) -> Path:
    return folder / "proxy.json"


def _counts_of(folder: Path) -> Path:
    return folder / "proxy-answered.json"


async def serve(given: argparse.Namespace) -> None:
    """Until whoever started us is gone."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(given.certificate, given.key)
    theirs = ssl.create_default_context(cafile=given.ca)
    ending = asyncio.Event()
    when_owner_is_gone(given.die_with_fd, ending.set)
    connector = aiohttp.TCPConnector(ssl=theirs, limit=0)
    forever = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=forever, auto_decompress=False
    ) as upstream:
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        proxy = Proxy(given.to, given.state, upstream)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, HOST, given.port, ssl_context=ours).start()
        await until_first(ending.wait(), proxy.notice_pauses())
        await runner.cleanup()


def main(arguments: Sequence[str] | None = None) -> None:
    made = argparse.ArgumentParser(prog="python -m holdfast.lab.kubernetes.proxy")
    add = made.add_argument
    add("--state", type=Path, required=True, help="folder of the file that says how to answer")
    add("--port", type=int, required=True)
    add("--to", required=True, help="URL of the API server")
    add("--ca", required=True, help="its authority")
    add("--certificate", required=True, help="ours")
    add("--key", required=True)
    add("--die-with-fd", type=int, required=True)
    asyncio.run(serve(made.parse_args(arguments)))


if __name__ == "__main__":
    main()

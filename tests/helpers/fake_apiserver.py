"""An API server of our own that keeps one collection, and fails on demand.

For the tests of the client layer. It does what a real one does (lists in pages of one moment,
watches from a version, bookmarks, 410 after a compaction, tokens); each fault is put in a line and
meets the next request of its kind. Must not be kinder than a real one.
"""

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Any
from uuid import uuid4

from aiohttp import web

PATH = "/api/v1/namespaces/default/pods"
BOOKMARK_S = 0.02
"""How often the fake sends bookmarks: a real one does so a minute apart."""

TURNS_TO_READ = 20
"""Of the event loop that server and client share, until what was written has been read."""


class OnCall(Enum):
    """What happens to the next call (a list among them)."""

    GONE = 410
    BUSY = 429
    BROKEN = 500
    PROXY = 502
    EXPIRED = 401
    LIE = 200
    HANG = "no answer, ever"
    CUT = "the connection ends"


class OnWatch(Enum):
    """What happens to the next piece of a watch."""

    END = "as after its time"
    HALF_CLOSE = "nothing more is written, after half a line"
    CUT = "the connection ends, after half of what was to be sent"
    HANG = "nothing more comes, ever"
    GONE = "an ERROR event, 410"
    BROKEN = "an ERROR event, 500"
    FORBIDDEN = "an ERROR event, 403"
    GARBAGE = "a line that is no event"
    TWICE = "every event is sent twice"
    AGAIN = "after the bookmark all that is remembered is sent once more"
    SHUFFLED = "events are sent out of order"
    SHUFFLED_CUT = "events are sent out of order, and only half of them"


def status(code: int, reason: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "code": code,
        "reason": reason,
        "message": f"said {code}",
        "details": details,
    }


class FakeApiServer:
    """The collection, its history, and the faults to come. Use with `serving`."""

    def __init__(self, *, seed: int = 0) -> None:
        self.url = ""
        self.over = asyncio.Event()  # until then what hangs hangs
        self.token = "first"
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 10
        self.oldest = 10  # events after this version are remembered
        self.on_calls: deque[OnCall] = deque()
        self.on_watches: deque[OnWatch] = deque()
        self.requests: list[web.BaseRequest] = []
        self.bookmarks = True
        self.retry_after = "0"  # of a 429, in seconds
        self.causes: list[dict[str, str]] = []  # of a 429
        self.moments = {self.version: dict(self.objects)}  # what was there at each version
        self._said = 0
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self._pages: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._news = asyncio.Event()
        self._rng = random.Random(seed)
        self._connections: set[asyncio.Transport] = set()

    def put(self, name: str) -> None:
        """Make the object, or change it."""
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else str(uuid4())
        self._say("MODIFIED" if known else "ADDED", name, uid)

    def delete(self, name: str) -> None:
        if known := self.objects.get(name):
            self._say("DELETED", name, known["metadata"]["uid"])

    def compact(self) -> None:
        """Forget the past: a watch or a page from it is answered 410."""
        self.oldest = self.version
        self._history.clear()
        self._pages.clear()

    def cut(self) -> None:
        """Every connection ends now."""
        for connection in list(self._connections):
            connection.abort()

    def set_back(self, version: int) -> None:
        """A restore of a backup, of which the watches hear nothing: old versions come again."""
        self.version = self.oldest = version
        self._history.clear()
        self.cut()

    def _say(self, kind: str, name: str, uid: str) -> None:
        self.version += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(self.version),
            "managedFields": [{"manager": "test"}],
        }
        self._said += 1
        spec = {"said": self._said}  # which no two have, though a version may come again
        told = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
        if kind == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = told
        self.moments[self.version] = dict(self.objects)
        self._history.append((self.version, kind, told))
        self._news.set()
        self._news = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        assert request.transport is not None
        self._connections.add(request.transport)
        if fault := (self.on_calls.popleft() if self.on_calls else None):
            return await self._fail(request, fault)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _answer(401, status(401, "Unauthorized"))
        if request.path != PATH:
            return _answer(404, status(404, "NotFound"))
        if request.query.get("watch"):
            return await self._watch(request, int(request.query["resourceVersion"]))
        return self._list(request)

    async def _fail(self, request: web.BaseRequest, fault: OnCall) -> web.StreamResponse:
        if fault is OnCall.HANG:
            await self.over.wait()
        if fault in (OnCall.HANG, OnCall.CUT):
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        if fault in (OnCall.PROXY, OnCall.LIE):
            page = "<html><h1>Bad Gateway</h1></html>"
            return web.Response(status=fault.value, text=page, content_type="text/html")
        if fault is OnCall.BUSY:
            answer = _answer(429, status(429, "TooManyRequests", causes=self.causes))
            answer.headers["Retry-After"] = self.retry_after
            return answer
        return _answer(fault.value, status(fault.value))

    def _list(self, request: web.BaseRequest) -> web.Response:
        limit = int(request.query.get("limit", "0")) or 500
        if onward := request.query.get("continue"):
            if onward not in self._pages:
                return _answer(410, status(410, "Expired"))
            version, items = self._pages.pop(onward)
        else:
            version, items = self.version, [self.objects[name] for name in sorted(self.objects)]
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = str(uuid4())
            self._pages[metadata["continue"]] = (version, items[limit:])
        told = [{"metadata": item["metadata"], "spec": item["spec"]} for item in items[:limit]]
        return _answer(
            200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": told}
        )

    async def _watch(self, request: web.BaseRequest, since: int) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            going = True
            while going and not self.over.is_set():
                if since < self.oldest:
                    await response.write(_line("ERROR", status(410, "Expired")))
                    break
                news, upto = self._news, max(since, self.version)
                going = await self._piece(request, response, since, upto)
                since = upto
                with suppress(TimeoutError):
                    async with asyncio.timeout(BOOKMARK_S):
                        await news.wait()
        return response

    async def _piece(
        self, request: web.BaseRequest, response: web.StreamResponse, since: int, upto: int
    ) -> bool:
        """Send what is new after `since`, and what the next fault makes of it; False: the end."""
        fault = self.on_watches.popleft() if self.on_watches else None
        past = [_line(kind, told) for at, kind, told in self._history if at <= since]
        lines = [_line(kind, told) for at, kind, told in self._history if since < at <= upto]
        if fault in (OnWatch.SHUFFLED, OnWatch.SHUFFLED_CUT):
            self._rng.shuffle(lines)
        if fault is OnWatch.TWICE:
            lines = [line for line in lines for _ in range(2)]
        if fault in (OnWatch.CUT, OnWatch.SHUFFLED_CUT):
            lines = lines[: len(lines) // 2]
        if lines:
            await response.write(b"".join(lines))
        if fault not in (None, OnWatch.TWICE, OnWatch.SHUFFLED, OnWatch.AGAIN):
            await self._end(request, response, fault)
            return False
        if self.bookmarks and self.version >= upto:
            await response.write(_line("BOOKMARK", _bookmark(upto)))
        if fault is OnWatch.AGAIN:
            await response.write(b"".join([*past, *lines, b"\n"]))
        return True

    async def _end(
        self, request: web.BaseRequest, response: web.StreamResponse, fault: OnWatch
    ) -> None:
        assert request.transport is not None
        for _ in range(TURNS_TO_READ):  # a client that is cut off forgets what it has not read
            await asyncio.sleep(0)
        if fault in (OnWatch.CUT, OnWatch.SHUFFLED_CUT):
            request.transport.abort()
        if fault is OnWatch.HANG:
            await self.over.wait()
        if fault is OnWatch.HALF_CLOSE:
            await response.write(b'{"type":"MODIF')
            request.transport.write_eof()  # type: ignore[attr-defined]
            await self.over.wait()
        codes = {OnWatch.GONE: 410, OnWatch.BROKEN: 500, OnWatch.FORBIDDEN: 403}
        if fault in codes:
            await response.write(_line("ERROR", status(codes[fault])))
        if fault is OnWatch.GARBAGE:
            await response.write(b"<html>\n")


@asynccontextmanager
async def serving(server: FakeApiServer) -> AsyncIterator[FakeApiServer]:
    """Have `server` answer at its `url`, on loopback, until the end."""
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.over.set()
        server.cut()
        await runner.cleanup()


def _answer(code: int, said: dict[str, Any]) -> web.Response:
    return web.json_response(said, status=code)


def _line(kind: str, told: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": told}).encode() + b"\n"


def _bookmark(version: int) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}

"""An API server as a handful of calls on JSON: get, pages, create, replace, patch, delete, watch.

Made once per server and identity, by the driver, the lab's kubelet and benchmarks; used by
`reflector` and by all that write. Reads and writes are limited by a token bucket, watches are not.
A call is tried once (twice where the token had changed): whoever calls knows whether to try again.
Must not keep objects.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from holdfast.kit.errors import PermanentError
from holdfast.kubeapi import credentials, watch_stream
from holdfast.kubeapi.bucket import TokenBucket
from holdfast.kubeapi.errors import Malformed, TooMany, error_of_answer
from holdfast.kubeapi.transport import MakeSocket, Request, Transport, kept_alive

Object = dict[str, Any]
"""An object, a list or a Status, as JSON has it."""
_OBJECT = msgspec.json.Decoder(Object)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one client asks of a server. Wide enough that a gang of 1,500 pods does not wait for us;
    what is too much for a server it says itself (429), and then we hold.
    """

    calls_per_s: float = 300.0
    burst: int = 1_000
    calls_at_once: int = 64
    answer_within_s: float = 30.0
    """To the head of an answer, and from there to its end."""


class Patch(StrEnum):
    """How a patch is meant."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """Use within `async with`. Every call raises the classes of `errors`, and nothing else.

    Further keywords are the query (`fieldSelector=`, `dryRun=`).
    """

    def __init__(
        self,
        load: credentials.Load,
        *,
        user_agent: str,
        limits: Limits | None = None,
        make_socket: MakeSocket = kept_alive,
    ) -> None:
        self._credentials = credentials.Credentials(load)
        self._user_agent = user_agent
        self._limits = limits or Limits()
        self._make_socket = make_socket
        self._bucket = TokenBucket(per_s=self._limits.calls_per_s, burst=self._limits.burst)
        self._may: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path,
        *,
        user_agent: str,
        context: str | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Who the kubeconfig says we are; the file and its token files are read on entry."""
        load = credentials.from_kubeconfig(path, context)
        return cls(load, user_agent=user_agent, limits=limits)

    @classmethod
    def in_cluster(cls, *, user_agent: str, limits: Limits | None = None) -> Self:
        """Who this pod's service account is."""
        return cls(credentials.in_cluster(), user_agent=user_agent, limits=limits)

    @classmethod
    def of(cls, kubeconfig: Path | None, *, user_agent: str, limits: Limits | None = None) -> Self:
        """Who the kubeconfig says we are, if there is one, else this pod's service account."""
        if kubeconfig is None:
            return cls.in_cluster(user_agent=user_agent, limits=limits)
        return cls.from_kubeconfig(kubeconfig, user_agent=user_agent, limits=limits)

    def on_behalf_of(self, token: str) -> "Client":
        """Another client of the same server, as the person who holds `token`."""
        if not token.isascii() or not token.isprintable() or " " in token:
            raise PermanentError("the token has characters that no bearer token has")
        load = credentials.as_bearer(self._configuration, token)
        return Client(
            load,
            user_agent=self._user_agent,
            limits=self._limits,
            make_socket=self._make_socket,
        )

    def ask_before_changes(self, may: Callable[[], Awaitable[None]]) -> None:
        """Await `may` from now on before whatever changes something is sent."""
        self._may = may

    async def may_change(self) -> None:
        """Return once something may be changed."""
        if self._may is not None:
            await self._may()

    async def __aenter__(self) -> Self:
        self._configuration = await self._credentials.begin()
        self._calls = self._transport(most=self._limits.calls_at_once)
        self._watches = self._transport(most=0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._calls.close()
        await self._watches.close()

    async def get(self, path: str, **query: object) -> Object:
        return await self._call(Request(verb="GET", at=_url(path, query)), changes=False)

    async def pages(self, path: str, *, limit: int = 500, **query: object) -> AsyncIterator[Object]:
        """A list in pages of at most `limit`, all of one moment: `metadata.resourceVersion`.

        Items have `apiVersion` and `kind` as they do in a watch. Raises `Gone` where the server no
        longer has that moment: begin again.
        """
        onward = ""
        while True:
            at = _url(path, {**query, "limit": limit} | ({"continue": onward} if onward else {}))
            page = await self._call(Request(verb="GET", at=at), changes=False)
            _name_the_kind(page, f"GET {path}")
            yield page
            onward = page["metadata"].get("continue", "")
            if not onward:
                return

    async def ask(self, path: str, question: Object) -> Object:
        """POST of a review: the question with its answer, and nothing is changed by it."""
        return await self._call(Request(verb="POST", at=path, body=question), changes=False)

    async def create(self, path: str, body: Object, **query: object) -> Object:
        """POST to a collection or subresource. Raises `AlreadyExists` besides."""
        return await self._call(Request(verb="POST", at=self._managed(path, query), body=body))

    async def replace(self, path: str, body: Object, **query: object) -> Object:
        """PUT; with `metadata.resourceVersion` raises `Conflict` if it has changed since."""
        return await self._call(Request(verb="PUT", at=self._managed(path, query), body=body))

    async def patch(
        self,
        path: str,
        body: Object | list[Object],
        kind: Patch = Patch.MERGE,
        **query: object,
    ) -> Object:
        return await self._call(
            Request(verb="PATCH", at=self._managed(path, query), body=body, content=kind.value)
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> Object:
        """DELETE; with `uid` or `version` (resourceVersion) raises `Conflict` if it is another."""
        only_if = {"uid": uid, "resourceVersion": version}
        options = {
            "gracePeriodSeconds": grace_s,
            "propagationPolicy": propagation,
            "preconditions": _given(only_if) or None,
        }
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **_given(options)}
        return await self._call(Request(verb="DELETE", at=path, body=body))

    async def watch(
        self, path: str, *, since: str, quiet_s: float, lasting_s: int, **query: object
    ) -> AsyncGenerator[watch_stream.Event, None]:
        """Events after version `since`, with bookmarks, until the server ends it (`lasting_s`).

        Raises as `watch_stream.events` does. Close it (`aclosing`) where it is left early.
        """
        asked = {"watch": True, "allowWatchBookmarks": True, "resourceVersion": since}
        at = _url(path, {**query, **asked, "timeoutSeconds": lasting_s})
        async with self._answer(self._watches, Request(verb="GET", at=at)) as response:
            told = watch_stream.events(f"watch {path}", response.content, quiet_s)
            async with aclosing(told) as events:
                async for event in events:
                    yield event

    def _managed(self, path: str, query: Object) -> str:
        """As one manager of fields, the product of the User-Agent: without a name each whole
        User-Agent would be one, and ours says what is being done.
        """
        return _url(path, {"fieldManager": self._user_agent.partition("/")[0], **query})

    def _transport(self, *, most: int) -> Transport:
        return Transport(
            self._configuration,
            self._user_agent,
            most=most,
            answer_within_s=self._limits.answer_within_s,
            make_socket=self._make_socket,
        )

    async def _call(self, request: Request, *, changes: bool = True) -> Object:
        await self._bucket.take()
        if changes:
            await self.may_change()  # last, for what is waited for before may take long
        try:
            async with self._answer(self._calls, request) as response:
                body = await self._calls.body(response, request)
        except TooMany as error:
            if "DisruptionBudget" not in error.causes:  # that is about one pod, not about us
                self._bucket.hold(error.retry_after_s or 0.0)
            raise
        try:
            return _OBJECT.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(f"{request.doing}: answered what is no object: {error}") from error

    @asynccontextmanager
    async def _answer(
        self, transport: Transport, request: Request
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response that says yes, asked for again where the token had been renewed."""
        async with AsyncExitStack() as stack:
            asked_as = self._credentials.authorization
            response = await stack.enter_async_context(transport.response(request, asked_as))
            if response.status == 401 and await self._credentials.renew(asked_as):
                renewed = self._credentials.authorization
                response = await stack.enter_async_context(transport.response(request, renewed))
            if response.status >= 400:
                body = await transport.body(response, request)
                raise error_of_answer(request.doing, response.status, response.headers, body)
            yield response


def _name_the_kind(page: Object, doing: str) -> None:
    """Items of a list do not say what they are; those of a watch do."""
    try:
        kind = str(page["kind"]).removesuffix("List")
        for item in page["items"] or ():
            item.setdefault("kind", kind)
            item.setdefault("apiVersion", page["apiVersion"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"{doing}: answered what is no list") from error


def _url(path: str, query: dict[str, object]) -> str:
    words = {key: str(value).lower() if value is True else value for key, value in query.items()}
    return f"{path}?{urlencode(words, quote_via=quote)}" if words else path


def _given(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value is not None}

"""HTTP to one API server over `kubernetes.aio`: one request in, one response out.

Made by `client`, one for calls and one for watches, so that watches never take the connections that
calls need. Must not judge a response: only its lack is an error here.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from holdfast.kit.acting import acting
from holdfast.kit.errors import PermanentError
from holdfast.kubeapi.errors import Unreachable

DEAD_AFTER_S = 30
"""A peer that does not even acknowledge bytes for this long is gone (the kernel finds out)."""

READ_BUFFER_BYTES = 2**21
"""Events of a watch are whole objects."""

MakeSocket = Callable[[Any], socket.socket]
"""A socket for an address, as `getaddrinfo` gives it."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: path and query. `acting` is added to the User-Agent in brackets."""

    verb: str
    at: str
    body: Any = None
    content: str = "application/json"
    acting: str = msgspec.field(default_factory=acting)

    @property
    def doing(self) -> str:
        """For errors: the query is left out, for it is long and says little."""
        return f"{self.verb} {self.at.partition('?')[0]}"


class Transport(RESTClientObject):
    """Connections to the server of `configuration`, at most `most` at a time (0: no limit)."""

    def __init__(
        self,
        configuration: Configuration,
        user_agent: str,
        *,
        most: int,
        answer_within_s: float,
        make_socket: MakeSocket,
    ) -> None:
        try:
            super().__init__(configuration)
        except (OSError, ssl.SSLError) as error:
            raise PermanentError(f"certificates for {configuration.host}: {error}") from error
        self._user_agent = user_agent
        self._most = most
        self._answer_within_s = answer_within_s
        self._make_socket = make_socket
        self._server = str(configuration.host).rstrip("/")
        self.proxy = self.proxy or _proxy_of(self._server)

    def _create_pool_manager(self) -> aiohttp.ClientSession:
        """Not with `trust_env`: that asks for the proxy, and ~/.netrc, in a thread at each call."""
        connector = aiohttp.TCPConnector(
            limit=self._most, ssl=self.ssl_context, socket_factory=self._make_socket
        )
        return aiohttp.ClientSession(connector=connector, read_bufsize=READ_BUFFER_BYTES)

    async def body(self, response: aiohttp.ClientResponse, request: Request) -> bytes:
        """The whole body. Raises `Unreachable`."""
        with unreachable(request.doing):
            async with asyncio.timeout(self._answer_within_s):
                return await response.read()

    @asynccontextmanager
    async def response(
        self, request: Request, authorization: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The head of the response; its body is read within. Raises `Unreachable`."""
        agent = f"{self._user_agent} ({request.acting})" if request.acting else self._user_agent
        headers = {"Content-Type": request.content, "User-Agent": agent}
        if authorization:
            headers["Authorization"] = authorization
        with unreachable(request.doing):
            async with asyncio.timeout(self._answer_within_s):
                answer = await self.request(  # type: ignore[no-untyped-call]
                    request.verb,
                    self._server + request.at,
                    headers=headers,
                    body=request.body,
                    _request_timeout=aiohttp.ClientTimeout(total=None),
                )
        response: aiohttp.ClientResponse = answer.response
        try:
            yield response
        finally:
            response.close()  # gives back a connection that was read to its end, cuts another


@contextmanager
def unreachable(doing: str) -> Iterator[None]:
    """Within it, whatever goes wrong with the connection is `Unreachable`."""
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(f"{doing}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{doing}: {str(error) or type(error).__name__}") from error


def _proxy_of(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and its like name for this server, looked up once."""
    url = urlsplit(server)
    return None if proxy_bypass(url.netloc) else getproxies().get(url.scheme)


def kept_alive(address: Any) -> socket.socket:
    """A socket that notices a dead peer, also while nothing is said for long."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_AFTER_S // 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_AFTER_S // 6)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_S * 1_000)
    return made

"""The driver's REST interface for the commands: standard library only, so that it starts fast.

Called by every command that talks to a running driver. Must not retry: a command says what failed.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from holdfast.cli.answered import Answer, Asked, answered
from holdfast.cli.errors import Stopped, misused, not_reachable
from holdfast.kit.tls import reason
from holdfast.protocol import exitcodes

PREFIX = "/v1alpha1"
TIMEOUT_S = 30.0

_EXIT_CODES = {
    400: exitcodes.USAGE,
    401: exitcodes.CONFIGURATION,
    403: exitcodes.CONFIGURATION,
    413: exitcodes.USAGE,
    422: exitcodes.USAGE,
    429: exitcodes.TRY_AGAIN,
    503: exitcodes.TRY_AGAIN,
}

_OF_TOKENS = (
    "It is in tokens/user of the driver's folder: name that with --state, or HOLDFAST_TOKEN."
)
"""What to do about the driver's own token here, where nobody sends headers by hand."""


_OF_TRUST = (
    "Set HOLDFAST_CA to a file with the certificate of its CA: ca.crt in the driver's folder. "
    "On Kubernetes: kubectl -n holdfast exec deploy/holdfast-driver -- cat /run/holdfast/ca.crt"
)

_OF_PLAIN = "Does it have TLS? Where it does not its address begins with http://."


class Problem(Stopped):
    """The driver refused: what it said (RFC 9457), with its list of mistakes."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.mistakes: list[dict[str, str]] = list(body.get("errors") or [])
        fix = str(body.get("fix") or "")
        self.not_ready = str(body.get("why") or "")  # of /readyz alone, as is `stale`
        self.stale = bool(body.get("stale"))
        sentence = body.get("detail") or body.get("title") or f"the driver answered {status}"
        lines = [
            f"{each['field']}: {each['why']}  {each['fix']}".rstrip() for each in self.mistakes
        ]
        super().__init__(
            str(sentence),
            fix=_OF_TOKENS if "tokens/user" in fix else fix,
            code=_EXIT_CODES.get(status, exitcodes.FAILED),
            details=[line for line in lines if line.split() != str(sentence).split()],
        )


def path(*parts: str | int) -> str:
    """`path("jobs", name)`: each part quoted, below the version's prefix."""
    return "/".join([PREFIX, *(quote(str(part), safe="") for part in parts)])


class Readiness(NamedTuple):
    """Whether a driver takes new work, and why not, or what keeps taken work waiting.

    `stale`: it can write nothing down and so decides nothing, as where its disk is full: what it
    tells of jobs may be old.
    """

    ready: bool
    why: str
    stale: bool


class Client:
    """One driver: its address and a person's token. A connection a request."""

    def __init__(self, url: str, token: str, *, ca: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """`ca`: PEM of whom to trust at https://; "" means this machine's own CAs. `timeout_s`: how
        long an answer may take.
        """
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise misused(f"{url!r} is not the address of a driver.", "Give http://HOST:PORT.")
        self.url = url
        self._ca = ca
        self._token = token
        self._timeout_s = timeout_s

    def get(self, where: str, **query: object) -> Any:
        return self.ask("GET", where, query=query)

    def readiness(self) -> "Readiness":
        """Whether the driver takes new work."""
        try:
            return Readiness(ready=True, why=str(self.get("/readyz")["why"]), stale=False)
        except Problem as problem:
            return Readiness(ready=False, why=problem.not_ready, stale=problem.stale)

    def post(
        self,
        where: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> Any:
        return self.ask("POST", where, query=query, body=body, headers=headers or {})

    def put(self, where: str, body: object) -> Any:
        return self.ask("PUT", where, body=body)

    def delete(self, where: str) -> Any:
        return self.ask("DELETE", where)

    def stream(
        self,
        where: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        **query: object,
    ) -> "Stream":
        """A long answer, piece by piece as it comes, until the driver ends it. `timeout_s`: how
        long it may be silent.
        """
        asked = self._asked("GET", _with_query(where, query), None, headers)
        connection, response = self._answer(asked, timeout_s)
        if response.status >= 400:
            with closing(connection):
                raise Problem(response.status, _decoded(response.read()))
        return Stream(connection, response, self._gone)

    def ask(
        self,
        method: str,
        where: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One question. JSON is given as its values, else the answer is text."""
        asked = self._asked(method, _with_query(where, query or {}), body, headers)
        connection, response = self._answer(asked, self._timeout_s)
        with closing(connection):
            try:
                data = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise self._gone(error) from error
        if response.status >= 400:
            raise Problem(response.status, _decoded(data))
        is_json = "json" in (response.headers.get_content_type() or "")
        return json.loads(data) if is_json and data else data.decode(errors="replace")

    def _asked(
        self, method: str, target: str, body: object, headers: Mapping[str, str] | None
    ) -> Asked:
        sent = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        if body is None:
            return Asked(method, target, None, sent)
        sent["Content-Type"] = "application/json"
        return Asked(method, target, json.dumps(body).encode(), sent)

    def _answer(self, asked: Asked, timeout_s: float | None) -> Answer:
        try:
            return answered(self.url, asked, ca=self._ca, timeout_s=timeout_s)
        except (OSError, http.client.HTTPException) as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> Stopped:
        if isinstance(error, ssl.SSLError):
            return Stopped(
                f"the driver at {self.url} is not asked: {reason(error)}.",
                fix=_OF_TRUST if isinstance(error, ssl.SSLCertVerificationError) else _OF_PLAIN,
                code=exitcodes.CONFIGURATION,
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return not_reachable(
            f"the driver at {self.url} does not answer ({why}).",
            "Is it running? Start one: holdfast driver --state DIR",
        )


class Stream:
    """The pieces of an answer that goes on; another thread may `close` it to end the wait."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        gone: Callable[[Exception], Stopped],
    ) -> None:
        self._connection, self._response, self._gone = connection, response, gone
        self._socket = connection.sock

    def __iter__(self) -> Iterator[bytes]:
        with closing(self._connection), closing(self._response):
            try:
                while piece := self._response.read1(65_536):
                    yield piece
            except (OSError, http.client.HTTPException) as error:
                raise self._gone(error) from error

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the other side was first
                self._socket.shutdown(socket.SHUT_RDWR)


def _with_query(where: str, query: Mapping[str, object]) -> str:
    asked = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
    return f"{where}?{urlencode(asked, doseq=True)}" if asked else where


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except ValueError:
        return {"detail": data.decode(errors="replace")[:500]}
    return body if isinstance(body, dict) else {"detail": str(body)}

"""What keeps other sites' pages out: whose name is asked for, where a change comes from, headers.

`Safe` is around the whole application; `session_of` is asked by the page and by `rest.guard`. A
request with a bearer token is the business of whoever has that: no browser sends one by itself.
"""

import hmac
import ipaddress
from collections.abc import Container, Iterable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.driver.adapters.page.sessions import Sessions, form_token
from holdfast.driver.people.access import NotAllowed, Stranger

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
OF_DOCS = "frame-ancestors 'none'"
"""Swagger's page at /docs has scripts and styles in it; it has no session and no facts."""

HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
"""Unless an answer has its own."""

NEW = "A new address of the page: holdfast page"


class Session(NamedTuple):
    """Whose rights it has, and what its forms have in them."""

    token: str
    form: str


def is_ours(host: str, names: Container[str]) -> bool:
    """Whether a driver can be meant by this `Host`. Another site that has its name resolved to our
    address is another name: so an address is ours, as is a name that no site can have.
    """
    name = (urlsplit(f"//{host}").hostname or "").rstrip(".") if is_host(host) else ""
    return _is_address(name) or name.endswith(".localhost") or name in names or _is_short(name)


def is_host(host: str) -> bool:
    """Whether it is a name and perhaps a port, and not a part of an address more."""
    try:
        parts = urlsplit(f"//{host}")
        return parts.netloc == host and "@" not in host and parts.port != 0
    except ValueError:  # a port that is none, half of an IPv6 address
        return False


def _is_short(name: str) -> bool:
    """`localhost`, `driver`: names without a dot are no site's."""
    return bool(name) and "." not in name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def names_of(urls: Iterable[str], hosts: str) -> frozenset[str]:
    """Names that a driver was told: of its addresses, and those that were given as such."""
    told = (urlsplit(url).hostname or "" for url in urls)
    return frozenset(name.strip().lower() for name in (*told, *hosts.split(",")) if name.strip())


def session_of(request: Request, sessions: Sessions) -> Session:
    """Of a browser's cookie. Raises `Stranger`; what may only be read is not judged here."""
    cookie = request.cookies.get(cookie_name(request), "")
    token = sessions.token_of(cookie) if cookie else None
    if token is None:
        raise Stranger("this page is not open to you, or not any more.", fix=NEW)
    return Session(token, form_token(cookie))


def token_for_api(request: Request, sessions: Sessions) -> str:
    """Of a browser that asks the REST interface. Raises `Stranger`, and `NotAllowed` where another
    page than ours may have asked.
    """
    token = session_of(request, sessions).token
    own = request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    if request.method not in ("GET", "HEAD"):
        own = request.headers.get("x-holdfast") == "1" and from_own_page(request)
    if not own:
        fix = "Send `X-Holdfast: 1` from the driver's own page, or a bearer token."
        raise NotAllowed("this session is for the driver's own page alone.", fix=fix)
    return token


def check_form(request: Request, session: Session, given: str) -> None:
    """Raises `NotAllowed` unless it is a form of this session that came from our own page."""
    same = hmac.compare_digest(given.encode(errors="surrogatepass"), session.form.encode())
    if not (same and from_own_page(request)):
        raise NotAllowed(
            "this form is not from this page.", fix="Open the page anew and try again."
        )


def from_own_page(request: Request) -> bool:
    """Whether its `Origin` is where it was asked."""
    origin = urlsplit(request.headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc == request.headers.get("host")


def cookie_name(request: Request) -> str:
    """One for each port: browsers do not tell the ports of a host apart."""
    host = request.headers.get("host", "")
    port = urlsplit(f"//{host}").port if is_host(host) else None
    return f"holdfast-{port or 80}"


class Safe:
    """The application, for those who mean us, with headers at each answer."""

    def __init__(self, app: ASGIApp, names: Container[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        docs = scope["path"].startswith("/docs")

        async def safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                _complete(MutableHeaders(scope=message), scope["path"], docs=docs)
            await send(message)

        headers = Headers(scope=scope)
        bearer = headers.get("authorization", "").lower().startswith("bearer ")
        host = headers.get("host", "")
        if bearer or is_ours(host, self._names):
            await self._app(scope, receive, safe)
        else:
            await _misdirected(host)(scope, receive, safe)


def _complete(headers: MutableHeaders, path: str, *, docs: bool) -> None:
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("Content-Security-Policy", OF_DOCS if docs else POLICY)
    files = path.startswith(("/static/", "/docs-assets/"))
    headers.setdefault("Cache-Control", "no-cache" if files else "no-store")


def _misdirected(host: str) -> JSONResponse:
    """421: RFC 9110, 15.5.20."""
    status = HTTPStatus.MISDIRECTED_REQUEST
    said = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": f"Host: {host[:200]!r} is no name of this driver.",
        "fix": "Use its address, or a name that it was started with: --hosts NAME.",
    }
    return JSONResponse(said, status.value, media_type="application/problem+json")

"""One request to a driver and its answer: of the one that leads, where the one asked stands by.

Used by `client`. Standard library only, so that commands start fast. Raises what `http.client`
does.
"""

import http.client
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.kit.tls import trusting
from holdfast.protocol.leading import LEADER, leader_of

LEADER_WITHIN_S = 3.0
"""To connect to a driver that another names: a pod's address may be out of reach from here."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Asked(NamedTuple):
    """A request; `target` is path and query."""

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """A response whose body is yet to be read, from this connection."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse


def answered(url: str, asked: Asked, *, ca: str, timeout_s: float | None) -> Answer:
    """The answer of the driver at `url`. One that stands by has done nothing, so the one that it
    names is asked the same; where that cannot be reached, the first answer stands.

    `ca`: PEM of whom to trust at https://; "" means this machine's own CAs.
    """
    first = _sent(_connected(url, ca, timeout_s), asked, timeout_s)
    leader = leader_of({LEADER: first.response.headers.get(LEADER, "")}, asked=url)
    waits = first.response.status == HTTPStatus.SERVICE_UNAVAILABLE
    if not (waits and leader and _is_for(leader, asked_at=url)):
        return first
    try:
        to_leader = _connected(leader, ca, LEADER_WITHIN_S)
    except OSError:
        return first
    first.connection.close()
    return _sent(to_leader, asked, timeout_s)


def _is_for(leader: str, *, asked_at: str) -> bool:
    """Whether the token may go there: what was meant for this machine does not leave it in clear,
    as where a port is forwarded and the address is one of another network.
    """
    asked, named = urlsplit(asked_at), urlsplit(leader)
    here = asked.hostname in LOOPBACK and named.hostname not in LOOPBACK
    return named.scheme == "https" or not here


def _connected(url: str, ca: str, within_s: float | None) -> http.client.HTTPConnection:
    connection = _connection(url, ca, within_s)
    connection.connect()
    return connection


def _sent(connection: http.client.HTTPConnection, asked: Asked, timeout_s: float | None) -> Answer:
    try:
        connection.sock.settimeout(timeout_s)
        connection.request(asked.method, asked.target, asked.body, dict(asked.headers))
        return Answer(connection, connection.getresponse())
    except BaseException:
        connection.close()
        raise


def _connection(url: str, ca: str, timeout_s: float | None) -> http.client.HTTPConnection:
    address = urlsplit(url)
    host, port = address.hostname or "", address.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trusting(ca))

"""The client of WebHDFS: questions to NameNodes, which also say at which DataNode bytes go in and
out. Used by `hdfs`.

Each call has a connection and time-outs of its own.
"""

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from holdfast.checkpoint.stores import PermanentStoreError, StoreError, TemporaryStoreError
from holdfast.checkpoint.stores.hdfs_errors import PORT, NoAnswer, Standby, refused

DEFAULT_PORT = 9870
"""Of a NameNode's dfs.namenode.http-address (Hadoop 3)."""

CONNECT_S = 5.0
ANSWER_S = 60.0
"""Longer than it takes until a store that does not answer is told, see `timed_store`."""

_METRICS = "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"


class WebHdfs:
    """One HDFS, by its NameNodes: `host[:port]`, several with commas between."""

    def __init__(self, namenodes: str, user: str) -> None:
        self._namenodes = [
            one if ":" in one else f"{one}:{DEFAULT_PORT}" for one in namenodes.split(",")
        ]
        self._user = user

    def ask(self, method: str, op: str, path: str, **options: str) -> dict[str, Any]:
        """What the active NameNode answers; {} where it only agrees. Raises `StoreError`."""
        return _decoded(self._asked(method, op, path, options)[1])

    def redirected(self, method: str, op: str, path: str, **options: str) -> str:
        """The URL at a DataNode where this is done. Raises `StoreError`."""
        location, _ = self._asked(method, op, path, options)
        if not location:
            raise TemporaryStoreError(f"{op}: no DataNode was named. It is tried again.")
        return location

    def datanode(self, location: str) -> str:
        """What `excludedatanodes` calls the DataNode of this URL: by the port for its data, while
        it counts as alive, else by its address alone.
        """
        host, _, port = urlsplit(location).netloc.partition(":")
        with suppress(OSError):  # as it is told, else
            host = socket.gethostbyname(host)
        with suppress(StoreError):
            for one in self.live_datanodes().values():
                if one.get("infoAddr") == f"{host}:{port}":
                    return str(one["xferaddr"])
        return host

    def live_datanodes(self) -> dict[str, dict[str, Any]]:
        """What the NameNode counts about each that it hears. Raises `StoreError`."""
        metrics = _decoded(self._active("GET", _METRICS)[1])
        try:
            return msgspec.json.decode(
                metrics["beans"][0]["LiveNodes"], type=dict[str, dict[str, Any]]
            )
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            raise TemporaryStoreError("the NameNode does not tell of its DataNodes") from error

    def _asked(self, method: str, op: str, path: str, options: dict[str, str]) -> tuple[str, bytes]:
        query = urlencode({"op": op, "user.name": self._user} | options)
        return self._active(method, f"/webhdfs/v1{quote(path)}?{query}")

    def _active(self, method: str, target: str) -> tuple[str, bytes]:
        """Ask one NameNode after another; who answers is asked first from then on."""
        failures: list[StoreError] = []
        for namenode in tuple(self._namenodes):
            try:
                answer = _answer(namenode, method, target)
            except (NoAnswer, Standby) as error:
                failures.append(error)
                continue
            self._namenodes.remove(namenode)
            self._namenodes.insert(0, namenode)
            return answer
        raise failures[0]


def _answer(namenode: str, method: str, target: str) -> tuple[str, bytes]:
    """Where it sends us, if it does, and what it says."""
    with connected(namenode) as connection, heard(namenode):
        connection.request(method, target)
        response = connection.getresponse()
        body = response.read()
    if response.status >= 400:
        raise refused(response.status, body)
    return response.headers.get("Location", ""), body


def _decoded(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise TemporaryStoreError(f"the answer is not WebHDFS's: {body[:60]!r}. {PORT}") from None


@contextmanager
def connected(address: str) -> Iterator[http.client.HTTPConnection]:
    """A connection to `host:port`, closed at the end. Raises `NoAnswer`."""
    connection = http.client.HTTPConnection(address, timeout=CONNECT_S)
    try:
        with heard(address):
            connection.connect()
        connection.sock.settimeout(ANSWER_S)
        yield connection
    finally:
        connection.close()


@contextmanager
def heard(who: str) -> Iterator[None]:
    """Turn what a connection raises into `NoAnswer`."""
    try:
        yield
    except TimeoutError as error:
        raise NoAnswer(f"{who} does not answer. It is tried again.") from error
    except http.client.BadStatusLine as error:
        if isinstance(error, http.client.RemoteDisconnected):
            raise NoAnswer(f"{who} hung up. It is tried again.") from error
        raise PermanentStoreError(f"{who} speaks no HTTP. {PORT}") from error
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise NoAnswer(f"{who} does not answer: {why}. It is tried again.") from error

"""Bytes to and from a DataNode, by the URL that a NameNode gave. Used by `hdfs`.

A client that drops leaves a truncated file behind, which HDFS takes for a whole one; a DataNode
that fails half way answers with JSON where bytes were due. Neither may pass for success here.
"""

import http.client
import re
import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from holdfast.checkpoint.stores import CHUNK_BYTES, Buffer, StoreError, TemporaryStoreError
from holdfast.checkpoint.stores.hdfs_errors import NoAnswer, refused
from holdfast.checkpoint.stores.webhdfs import connected, heard

GOODBYE_S = 10.0
"""How long a DataNode may take to see that no more is coming."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TAIL_BYTES = 4_096
_FAILED_WITHIN = re.compile(rb'HTTP/1\.1 [45]\d\d .*"RemoteException"', re.DOTALL)
"""What a DataNode writes among the bytes of a file where it fails after it has begun."""


class Upload:
    """A file on its way to a DataNode that has taken the connection."""

    def __init__(self, connection: http.client.HTTPConnection, location: str) -> None:
        self._connection = connection
        self._who = f"DataNode {urlsplit(location).netloc}"
        self.location = location

    def send(self, chunks: Iterable[Buffer]) -> int:
        """All of it; how many bytes that were. Raises `StoreError`, or what `chunks` raises: then
        what is there is truncated, and on no account the file.
        """
        sent = 0
        self._begin()
        try:
            for chunk in chunks:
                if size := memoryview(chunk).nbytes:
                    self._send(chunk, size)
                    sent += size
        except StoreError:
            raise
        except BaseException:
            self._break_off()
            raise
        self._end()
        return sent

    def _begin(self) -> None:
        with heard(self._who):
            self._connection.putrequest("PUT", target(self.location))
            self._connection.putheader("Content-Type", "application/octet-stream")
            self._connection.putheader("Transfer-Encoding", "chunked")
            self._connection.endheaders()

    def _send(self, chunk: Buffer, size: int) -> None:
        try:
            if not self._is_refused():
                for part in (b"%X\r\n" % size, chunk, b"\r\n"):
                    with heard(self._who):
                        self._connection.send(part)
                return
        except NoAnswer as error:
            if isinstance(error.__cause__, TimeoutError):
                raise
        self._end()  # it says why
        raise NoAnswer(f"{self._who} took no more. It is tried again.")

    def _is_refused(self) -> bool:
        """Whether it has answered before the end: a quota, say."""
        said = select.poll()
        said.register(self._connection.sock, select.POLLIN)
        if not said.poll(0):
            return False
        with heard(self._who):
            seen = self._connection.sock.recv(len(_CONTINUE) + 1, socket.MSG_PEEK)
        return seen != _CONTINUE

    def _end(self) -> None:
        with heard(self._who):
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before
                self._connection.send(b"0\r\n\r\n")
            response = self._connection.getresponse()
            body = response.read()
        if response.status != http.client.CREATED:
            raise refused(response.status, body)

    def _break_off(self) -> None:
        """Say that no more comes, and wait until it has let go of the file: who deletes it before
        may find it there again."""
        with suppress(OSError):
            self._connection.sock.settimeout(GOODBYE_S)
            self._connection.sock.shutdown(socket.SHUT_WR)
            while self._connection.sock.recv(_TAIL_BYTES):
                pass


@contextmanager
def taken(location: str) -> Iterator[Upload]:
    """A connection to the DataNode; nothing is sent yet. Raises `NoAnswer` where it is dead."""
    with connected(urlsplit(location).netloc) as connection:
        yield Upload(connection, location)


def download(location: str, wanted: int) -> Iterator[bytes]:
    """Exactly `wanted` bytes, in pieces. Raises `StoreError` where they are others, or fewer."""
    who = f"DataNode {urlsplit(location).netloc}"
    with connected(urlsplit(location).netloc) as connection:
        with heard(who):
            connection.request("GET", target(location))
            response = connection.getresponse()
        if response.status != http.client.OK:
            with heard(who):
                raise refused(response.status, response.read())
        left = wanted
        while left:
            with heard(who):
                chunk = response.read(min(CHUNK_BYTES, left))
            if not chunk or _FAILED_WITHIN.search(chunk[-_TAIL_BYTES:]):
                raise TemporaryStoreError(f"{who} broke off. It is tried again.")
            left -= len(chunk)
            yield chunk


def target(location: str) -> str:
    """The part of a URL that is asked for."""
    parts = urlsplit(location)
    return f"{parts.path}?{parts.query}"

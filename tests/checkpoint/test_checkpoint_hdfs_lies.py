"""What WebHDFS answers with status 200 and is not so: a stand-in says it, as real servers have."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ports import free_port

from holdfast.checkpoint.stores import PermanentStoreError, StoreError, TemporaryStoreError
from holdfast.checkpoint.stores.hdfs import HdfsStore
from holdfast.checkpoint.stores.hdfs_errors import refused

JSON_ERROR = b'HTTP/1.1 403 Forbidden\r\n\r\n{"RemoteException":{"exception":"IOException"}}'


class Server(ThreadingHTTPServer):
    """A NameNode and its only DataNode. What it lies about a test sets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_port}"
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.standby = False
        self.keeps_bytes: int | None = None  # of what it is given
        self.renames = True
        self.sends: bytes | None = None  # in the place of a file's bytes
        self.location = ""  # of a DataNode, for the first who asks


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._do()

    def do_PUT(self) -> None:
        self._do()

    def do_DELETE(self) -> None:
        self._do()

    def _do(self) -> None:
        parts = urlsplit(self.path)
        query = {name: value for name, (value, *_) in parse_qs(parts.query).items()}
        path, op, server = parts.path.removeprefix("/webhdfs/v1"), query.get("op", ""), self.server
        server.asked.append((op, query))
        if server.standby:
            self._error("StandbyException")
        elif op in ("CREATE", "OPEN") and "datanode" not in query:
            where = server.location or server.address
            server.location = ""
            self._answer(307, b"", Location=f"http://{where}{self.path}&datanode=1")
        elif op == "CREATE":
            server.files[path] = self._body()[: server.keeps_bytes]
            self._answer(201, b"")
        elif op == "OPEN":
            at, length = int(query["offset"]), int(query["length"])
            data = server.files[path][at : at + length]
            sent = data if server.sends is None else server.sends[at:]
            self._answer(200, sent, length=len(data))
        elif op == "GETFILESTATUS" and path in server.files:
            status = {"type": "FILE", "length": len(server.files[path])}
            self._answer(200, json.dumps({"FileStatus": status}).encode())
        elif op == "RENAME" and server.renames:
            server.files[query["destination"]] = server.files.pop(path)
            self._answer(200, b"")
        elif op in ("RENAME", "DELETE"):
            gone = op == "DELETE" and server.files.pop(path, None) is not None
            self._answer(200, json.dumps({"boolean": gone}).encode())
        else:
            self._error("FileNotFoundException", 404)

    def _body(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        return found

    def _error(self, name: str, status: int = 403) -> None:
        self._answer(status, json.dumps({"RemoteException": {"exception": name}}).encode())

    def _answer(self, status: int, body: bytes, length: int | None = None, **more: str) -> None:
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def store(server: Server) -> HdfsStore:
    return HdfsStore(server.address, "/root")


def read(store: HdfsStore, path: str) -> bytes:
    return b"".join(store.get(path))


def test_a_file_of_which_less_arrived_is_not_published(server: Server, store: HdfsStore) -> None:
    store.put("a", [b"older"])
    server.keeps_bytes = 3
    with pytest.raises(TemporaryStoreError, match="3 of 6 bytes arrived"):
        store.put("a", [b"newer!"])
    assert server.files == {"/root/a": b"older"}


def test_a_rename_that_is_refused_with_status_200_is_told(server: Server, store: HdfsStore) -> None:
    server.renames = False
    with pytest.raises(TemporaryStoreError, match="the rename into place was refused"):
        store.put("a", [b"x"])
    assert server.files == {}, "what was written beside is gone"
    (rename,) = [query for op, query in server.asked if op == "RENAME"]
    assert rename["renameoptions"] == "OVERWRITE"


@pytest.mark.parametrize("size", [len(JSON_ERROR), len(JSON_ERROR) - 9 + 20, 5_000, 9_000_000])
def test_an_error_among_the_bytes_is_never_taken_for_data(
    server: Server, store: HdfsStore, size: int
) -> None:
    store.put("a", [bytes(size)])
    server.sends = (bytes(size - len(JSON_ERROR)) + JSON_ERROR)[-size:]
    with pytest.raises(TemporaryStoreError, match="broke off"):
        read(store, "a")
    server.sends = JSON_ERROR[:50]  # and then it hangs up
    with pytest.raises(TemporaryStoreError):
        read(store, "a")
    server.sends = None
    assert read(store, "a") == bytes(size)


def test_a_datanode_that_is_dead_is_left_out_for_reads_and_writes(
    server: Server, store: HdfsStore
) -> None:
    for use in (lambda: store.put("a", [b"x"]), lambda: read(store, "a")):
        server.location = f"127.0.0.1:{free_port()}"
        server.asked.clear()
        use()
        asked = [query for op, query in server.asked if op in ("CREATE", "OPEN")]
        assert asked[-1]["excludedatanodes"] == "127.0.0.1"
    assert server.files == {"/root/a": b"x"}


def test_a_standby_namenode_is_passed_over(server: Server) -> None:
    with Server() as other:
        other.standby = True
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        store = HdfsStore(f"{other.address},{server.address}", "/root")
        store.put("a", [b"x"])
        assert read(store, "a") == b"x"
        assert len(other.asked) == 1, "who is active is known from then on"
        server.standby = True
        with pytest.raises(TemporaryStoreError, match="StandbyException"):
            read(store, "a")
        other.shutdown()
        thread.join()


def test_a_server_that_is_no_namenode_is_told() -> None:
    class Web(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        store = HdfsStore(f"127.0.0.1:{web.server_port}", "/root")
        for use in (lambda: store.entries(""), lambda: read(store, "a")):
            with pytest.raises(StoreError, match=re.escape("the answer is not WebHDFS's")):
                use()
        web.shutdown()
        thread.join()


def test_an_account_without_a_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.setattr("getpass.getuser", nobody)
    with pytest.raises(PermanentStoreError, match="Set HADOOP_USER_NAME"):
        HdfsStore("127.0.0.1:1", "/")


@pytest.mark.parametrize(
    ("status", "body", "kind", "advice"),
    [
        (401, b"", PermanentStoreError, "does not speak Kerberos"),
        (403, b"<html>no</html>", PermanentStoreError, "HDFS user read and write there"),
        (502, b"", TemporaryStoreError, "HTTP status 502. It is tried again."),
        (
            500,
            b'{"RemoteException": {"exception": "IOException", "message": "/a is in a read only '
            b'mount point"}}',
            PermanentStoreError,
            "Mount it writable",
        ),
    ],
)
def test_a_gateways_refusal_has_advice(
    status: int, body: bytes, kind: type[StoreError], advice: str
) -> None:
    error = refused(status, body)
    assert type(error) is kind
    assert advice in str(error)

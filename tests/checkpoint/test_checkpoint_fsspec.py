"""What fsspec's file systems do in silence, and stores whose library is missing."""

import errno
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.checkpoint.stores import PermanentStoreError, TemporaryStoreError, open_store
from holdfast.checkpoint.stores.resumed import TRIES, resumed

pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

from holdfast.checkpoint.stores.anywhere import FsspecStore
from holdfast.protocol import storeurl


@pytest.fixture
def store(request: pytest.FixtureRequest) -> FsspecStore:
    found = FsspecStore(f"memory://{request.node.name}")
    found.put("a", [b"older"])
    return found


def read(store: FsspecStore, path: str) -> bytes:
    return b"".join(store.get(path))


def replace(monkeypatch: pytest.MonkeyPatch, name: str, does: Any) -> None:
    monkeypatch.setattr(MemoryFileSystem, name, does)


def test_a_move_that_does_nothing_is_told(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(monkeypatch, "mv", lambda self, one, two: None)
    with pytest.raises(TemporaryStoreError, match="the move into place did not happen"):
        store.put("b", [b"x"])
    assert [entry.name for entry in store.entries("")] == ["a"]


def test_a_move_that_does_not_replace_is_helped(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = MemoryFileSystem.mv

    def careful(self: MemoryFileSystem, one: str, two: str) -> None:
        if not self.exists(two):
            move(self, one, two)

    replace(monkeypatch, "mv", careful)
    store.put("a", [b"newer"])
    assert read(store, "a") == b"newer"
    assert [entry.name for entry in store.entries("")] == ["a"]


def test_a_file_of_which_less_arrived_is_not_published(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = MemoryFileSystem.info

    def shorter(self: MemoryFileSystem, path: str, **more: Any) -> Any:
        found = info(self, path, **more)
        return found | {"size": 2} if found["name"].endswith(".tmp") else found

    replace(monkeypatch, "info", shorter)
    with pytest.raises(TemporaryStoreError, match="2 of 5 bytes arrived"):
        store.put("a", [b"newer"])
    assert read(store, "a") == b"older"


def test_whatever_its_library_raises_is_an_error_of_the_store(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(error: Exception) -> Any:
        def raises(*_: Any, **more: Any) -> None:
            raise error

        return raises

    class TheirOwn(Exception):
        pass

    replace(monkeypatch, "ls", fails(TheirOwn("quota\nand a stack")))
    with pytest.raises(TemporaryStoreError, match=r"cannot list .*TheirOwn: quota\. It is tried"):
        store.entries("")
    replace(monkeypatch, "ls", fails(PermissionError(13, "no")))
    with pytest.raises(PermanentStoreError, match="Permission denied"):
        store.entries("")
    replace(monkeypatch, "cat_file", lambda *_, **more: b"ol")
    with pytest.raises(TemporaryStoreError, match="2 of 5 bytes came"):
        read(store, "a")


def test_a_full_disk_there_is_told_with_what_to_do(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "no room")

    replace(monkeypatch, "open", full)
    with pytest.raises(TemporaryStoreError, match=r"No space left on device\. Free space there"):
        store.put("b", [b"x"])


def test_a_server_without_an_address_is_told_in_its_resolver_s_words(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    replace(monkeypatch, "ls", unknown)
    with pytest.raises(TemporaryStoreError, match="Name or service not known"):
        store.entries("")


def test_a_file_is_no_empty_folder_and_what_is_not_whole_is_in_none(store: FsspecStore) -> None:
    with pytest.raises(PermanentStoreError, match="Not a directory"):
        store.entries("a")
    store._files.pipe_file(f"{store._root}/.b.1.2.tmp", b"half")
    assert [entry.name for entry in store.entries("")] == ["a"]


def test_a_folder_is_listed_as_it_is_now(
    store: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most libraries keep what they have listed."""
    listed: dict[str, Any] = {}
    ls = MemoryFileSystem.ls

    def kept(self: MemoryFileSystem, path: str, **more: Any) -> Any:
        return listed.setdefault(path, ls(self, path, **more))

    replace(monkeypatch, "ls", kept)
    replace(monkeypatch, "invalidate_cache", lambda self, path=None: listed.clear())
    assert [entry.name for entry in store.entries("")] == ["a"]
    store._files.pipe_file(f"{store._root}/b", b"of another node")
    assert [entry.name for entry in store.entries("")] == ["a", "b"]


def test_a_pattern_in_a_path_is_refused() -> None:
    for url in ("memory://a*", "memory://a/[b]"):
        with pytest.raises(PermanentStoreError, match="takes that for a pattern"):
            FsspecStore(url)


def test_the_protocols_that_the_job_spec_takes_are_those_of_fsspec() -> None:
    assert set(known_implementations) >= storeurl.OTHERS


def test_a_library_that_is_missing_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("boto3", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("s3", "anywhere"):
        monkeypatch.delitem(sys.modules, f"holdfast.checkpoint.stores.{name}", raising=False)
    with pytest.raises(PermanentStoreError, match=r"pip install 'holdfast\[s3\]'"):
        open_store("s3://bucket/x")
    with pytest.raises(PermanentStoreError, match=r"pip install 'holdfast\[train\]'"):
        open_store("gs://bucket/x")


def test_a_protocol_whose_library_is_missing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(PermanentStoreError, match="gcsfs"):
        open_store("gs://bucket/x")


def test_a_read_goes_on_where_it_broke_off() -> None:
    data, begun = bytes(range(200)), []

    def read(begin: int) -> Iterator[bytes]:
        begun.append(begin)
        yield data[begin : begin + 30]
        if begin < 160:
            raise TemporaryStoreError("broke off")
        yield data[begin + 30 :]

    assert b"".join(resumed(read, 10)) == data[10:]
    assert begun == [10, 40, 70, 100, 130, 160], "each brought something"


def test_a_read_that_brings_nothing_is_given_up() -> None:
    begun = []

    def read(begin: int) -> Iterator[bytes]:
        begun.append(begin)
        raise TemporaryStoreError("away")
        yield b""

    with pytest.raises(TemporaryStoreError, match="away"):
        list(resumed(read, 5))
    assert begun == [5] * TRIES

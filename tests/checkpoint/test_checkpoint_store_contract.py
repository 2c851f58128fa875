"""The contract of every store: a folder, a real HDFS, a real S3, and what fsspec knows."""

import os
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from ports import free_port
from store_servers import hdfs_server, s3_server

from holdfast.checkpoint.fence import Superseded, check_fence, raise_fence
from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores import (
    NotStored,
    PermanentStoreError,
    Store,
    StoredFile,
    TemporaryStoreError,
    open_store,
)

KINDS = ["file", "hdfs", "s3", "memory"]
ODD = ["a b", "grüße", "100%", "a+b", "a#b?c", "~x", "it's", "a&b=c;d", "..a", "{x}"]
_numbers = count()

Open = Callable[[str], Store]
"""Opens a store of one kind by the folder's name, as often as one likes."""


@pytest.fixture(scope="module")
def hdfs() -> Iterator[str]:
    with hdfs_server() as server:
        yield f"hdfs://{server.address}"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as server:
        server.new_bucket("contract")
        yield "s3://contract"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"file://{tmp_path_factory.mktemp('stores')}"


@pytest.fixture(scope="module")
def memory() -> str:
    pytest.importorskip("fsspec")
    return "memory://contract"


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Open:
    root: str = request.getfixturevalue(request.param)
    if request.param != "memory":
        return lambda folder: open_store(f"{root}/{folder}")
    from holdfast.checkpoint.stores.anywhere import FsspecStore

    return lambda folder: FsspecStore(f"{root}/{folder}")


@pytest.fixture
def store(opened: Open) -> Store:
    """An empty one."""
    return opened(f"the%20store-{next(_numbers)}")


def read(store: Store, path: str, **part: int) -> bytes:
    return b"".join(store.get(path, **part))


def names(store: Store, folder: str) -> list[str]:
    return [entry.name for entry in store.entries(folder)]


def test_a_file_comes_back_as_it_was_put(store: Store) -> None:
    store.put("folder/a", [b"one ", bytearray(b"two "), memoryview(b"three")])
    assert read(store, "folder/a") == b"one two three"
    store.put("folder/none", [])
    store.put("folder/nothing", iter([b"", b""]))
    assert read(store, "folder/none") == read(store, "folder/nothing") == b""
    big = os.urandom(40_000_000)  # more than two parts of an upload
    store.put("folder/big", (big[at : at + 999_999] for at in range(0, len(big), 999_999)))
    assert read(store, "folder/big") == big
    assert read(store, "folder/big", begin=17_000_001, end=34_000_002) == big[17_000_001:34_000_002]


def test_a_part_of_a_file_is_read_as_far_as_it_goes(store: Store) -> None:
    store.put("a", [b"0123456789"])
    assert read(store, "a", begin=3, end=5) == b"34"
    assert read(store, "a", begin=7) == b"789"
    assert read(store, "a", end=2) == b"01"
    assert read(store, "a", begin=8, end=100) == b"89"
    assert read(store, "a", begin=10) == read(store, "a", begin=50, end=60) == b""
    assert read(store, "a", begin=4, end=4) == b""


def test_a_second_put_replaces_the_first(store: Store) -> None:
    store.put("a", [b"long content"])
    store.put("a", [b"short"])
    assert read(store, "a") == b"short"
    store.put("a", [b"other"])  # as long as the one before
    assert read(store, "a") == b"other"
    assert names(store, "") == ["a"]


@pytest.mark.parametrize("size", [10, 20_000_000])
def test_a_put_that_breaks_off_changes_nothing_and_leaves_nothing(store: Store, size: int) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(size)
        yield bytes(size)
        raise RuntimeError("the slot is gone")

    store.put("folder/a", [b"whole"])
    for path in ("folder/a", "folder/b"):
        with pytest.raises(RuntimeError, match="the slot is gone"):
            store.put(path, broken())
    assert read(store, "folder/a") == b"whole"
    assert names(store, "folder") == ["a"]
    store.delete("folder/a")
    assert names(store, "folder") == []


def test_a_folder_lists_its_files_and_folders_with_sizes_by_name(store: Store) -> None:
    store.put("b/inner", [b"x"])
    store.put("c", [b"123"])
    store.put("a", [])
    assert store.entries("") == [
        StoredFile("a", 0, False),
        StoredFile("b", 0, True),
        StoredFile("c", 3, False),
    ]
    assert store.entries("b") == [StoredFile("inner", 1, False)]


def test_what_is_not_there_is_said_so(store: Store) -> None:
    assert store.entries("nowhere") == []
    store.delete("nowhere")
    with pytest.raises(NotStored, match="nowhere is not there"):
        read(store, "nowhere")
    with pytest.raises(NotStored, match="nowhere is not there"):
        read(store, "nowhere", begin=2, end=3)


def test_a_file_or_a_folder_with_all_in_it_can_be_deleted(store: Store) -> None:
    for path in ("folder/a", "folder/b", "folder/in/c", "folder2/d"):
        store.put(path, [b"x"])
    store.delete("folder/a")
    assert names(store, "folder") == ["b", "in"]
    store.delete("folder")
    assert names(store, "") == ["folder2"]


def test_any_name_will_do(store: Store, request: pytest.FixtureRequest) -> None:
    by_fsspec = request.node.callspec.params["opened"] == "memory"
    odd = [name for name in ODD if not (by_fsspec and "?" in name)]  # a pattern, there
    for name in odd:
        store.put(f"folder/{name}", [name.encode()])
    assert names(store, "folder") == sorted(odd)
    for name in odd:
        assert read(store, f"folder/{name}") == name.encode()
        store.delete(f"folder/{name}")
    assert names(store, "folder") == []


def test_a_fence_is_seen_by_others_at_once(opened: Open) -> None:
    folder = f"fenced-{next(_numbers)}"
    raise_fence(opened(folder), 3)
    check_fence(opened(folder), 3)
    with pytest.raises(Superseded):
        check_fence(opened(folder), 2)


def test_of_two_who_write_a_file_at_once_one_is_there_whole(opened: Open) -> None:
    folder, both = f"at-once-{next(_numbers)}", threading.Barrier(2)
    errors: list[BaseException] = []

    def write(letter: bytes) -> None:
        def pieces() -> Iterator[bytes]:
            yield letter * 9_000_000
            both.wait(60)  # each has begun before one ends
            yield letter * 9_000_000

        try:
            opened(folder).put("a", pieces())
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"x", b"y")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not errors
    found = read(opened(folder), "a")
    assert found in (b"x" * 18_000_000, b"y" * 18_000_000)
    assert names(opened(folder), "") == ["a"]


# ---------------------------------------------------------------- when it does not work


def test_a_store_that_is_away_is_not_an_empty_one(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3")
    nobody = f"127.0.0.1:{free_port()}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{nobody}")
    for away in (open_store(f"hdfs://{nobody}/x"), open_store("s3://some-bucket/x")):
        for use in (
            lambda store: store.entries("folder"),
            lambda store: read(store, "a"),
            lambda store: store.put("a", [b"x"]),
            lambda store: store.delete("a"),
            lambda store: list(whole(store)),
        ):
            with pytest.raises(TemporaryStoreError, match="does not answer"):
                use(away)


def test_what_is_not_permitted_is_told_as_that(
    hdfs: str, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(f"{s3}/rights").put("a", [b"x"])
    open_store(f"{hdfs}/rights").put("a", [b"x"])
    secret = "wrong-secret"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    for url, why in ((s3, "SignatureDoesNotMatch"), (hdfs, "Permission denied: user=stranger")):
        with pytest.raises(PermanentStoreError, match=why) as refused:
            open_store(f"{url}/rights").put("b", [b"x"])
        assert secret not in str(refused.value)
        with pytest.raises(PermanentStoreError, match=why):
            open_store(f"{url}/rights").delete("a")


def test_without_keys_that_is_said(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(PermanentStoreError, match="there are no keys for it"):
        open_store(s3).entries("")


@pytest.mark.parametrize("kind", ["file", "hdfs"])
def test_a_file_is_no_folder(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    root = request.getfixturevalue(kind)
    open_store(f"{root}/plain").put("file", [b"x"])
    with pytest.raises(PermanentStoreError, match="Give the job a storeUrl that is a folder"):
        open_store(f"{root}/plain/file").put("b", [b"x"])
    with pytest.raises(PermanentStoreError, match="Give the job a storeUrl that is a folder"):
        open_store(f"{root}/plain/file").entries("")

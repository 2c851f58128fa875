"""A real HDFS under faults: what it shows as whole and is not, and what it does not answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from checkpoint_agent import Start
from store_servers import hdfs_server
from waiting import eventually

from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores import (
    PermanentStoreError,
    StoreError,
    TemporaryStoreError,
    webhdfs,
)
from holdfast.checkpoint.stores import hdfs as stores_hdfs
from holdfast.checkpoint.stores.datanode import Upload, taken
from holdfast.checkpoint.stores.hdfs import HdfsStore
from holdfast.lab.stores.hdfs import HOST, Hdfs
from holdfast.protocol.messages import Stored

CHUNK = bytes(4 << 20)
BLOCK = 1 << 20

WRITES = """
import sys
from holdfast.checkpoint.stores import open_store
def pieces():
    yield bytes(9_000_000)
    print("half", flush=True)
    sys.stdin.read()
open_store(sys.argv[1]).put("folder/a", pieces())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Hdfs]:
    with hdfs_server() as started:
        yield started


@pytest.fixture
def hdfs(server: Hdfs) -> Iterator[Hdfs]:
    """Whole again after the test."""
    yield server
    server.mend()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"/{tmp_path.name}"


@pytest.fixture
def store(hdfs: Hdfs, root: str) -> HdfsStore:
    return HdfsStore(hdfs.address, root)


def read(store: HdfsStore, path: str) -> bytes:
    return b"".join(store.get(path))


def names(store: HdfsStore, folder: str = "") -> list[str]:
    return [entry.name for entry in store.entries(folder)]


def unnamed(hdfs: Hdfs, folder: str) -> list[int]:
    """How long those files are whose names do not count."""
    listed = hdfs.ask("GET", "LISTSTATUS", folder)["FileStatuses"]["FileStatus"]
    return [one["length"] for one in listed if one["pathSuffix"].endswith(".tmp")]


@pytest.fixture
def speakers(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The DataNodes to which files were given, the last one last."""
    found: list[int] = []

    def noted(location: str) -> AbstractContextManager[Upload]:
        found.append(hdfs.datanode_at(location))
        return taken(location)

    monkeypatch.setattr(stores_hdfs, "taken", noted)
    return found


def beset(hdfs: Hdfs, fault: Callable[[], object]) -> Iterator[bytes]:
    """A file in the middle of which something happens."""
    yield CHUNK
    eventually(hdfs.writers, "a DataNode has some of it")
    fault()
    yield from (CHUNK for _ in range(64))


def test_a_writer_that_is_killed_leaves_no_file_that_counts(
    hdfs: Hdfs, root: str, store: HdfsStore
) -> None:
    store.put("folder/a", [b"older"])
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, f"hdfs://{hdfs.address}{root}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    torn = eventually(lambda: [n for n in unnamed(hdfs, f"{root}/folder") if n], "it is closed")
    assert torn[0] <= 9_000_000, "HDFS shows it like any other file"
    assert names(store, "folder") == ["a"]
    assert read(store, "folder/a") == b"older"
    store.delete("folder")
    assert names(store) == []


def test_a_source_that_breaks_off_leaves_nothing_not_even_under_another_name(
    hdfs: Hdfs, root: str, store: HdfsStore
) -> None:
    def fails() -> None:
        raise RuntimeError("the slot is gone")

    store.put("a", [b"older"])
    with pytest.raises(RuntimeError, match="the slot is gone"):
        store.put("a", beset(hdfs, fails))
    assert unnamed(hdfs, root) == []
    eventually(lambda: not hdfs.writers(), "a DataNode deletes a while later")
    assert unnamed(hdfs, root) == [], "and nothing has come back"
    assert read(store, "a") == b"older"


def test_a_datanode_that_dies_under_a_write_ends_it_and_the_next_goes_elsewhere(
    hdfs: Hdfs, store: HdfsStore, speakers: list[int]
) -> None:
    store.put("a", [b"older"])
    with pytest.raises(TemporaryStoreError, match="cannot write hdfs://"):
        store.put("a", beset(hdfs, lambda: hdfs.kill_datanode(speakers[-1])))
    dead = speakers[-1]
    assert store.left_out & {hdfs.transfer_address(dead), HOST}  # the host, once it is known dead
    assert names(store) == ["a"]
    again(lambda: store.put("b", [CHUNK, CHUNK]))
    assert speakers[-1] != dead, "though it is still named"
    assert read(store, "b") == CHUNK + CHUNK
    hdfs.mend()
    assert read(store, "a") == b"older"


def again(put: Callable[[], None]) -> None:
    """As an agent does: what is written to two DataNodes may meet the dead one behind the first."""

    def done() -> bool:
        try:
            put()
        except TemporaryStoreError:
            return False
        return True

    eventually(done, "it is written")


@pytest.mark.slow
def test_a_datanode_that_is_stopped_ends_the_write_and_is_left_out(
    hdfs: Hdfs, store: HdfsStore, speakers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs, "ANSWER_S", 10.0)

    def stop() -> None:
        os.kill(hdfs.datanode_pid(speakers[-1]), signal.SIGSTOP)

    try:
        with pytest.raises(TemporaryStoreError, match="does not answer"):
            store.put("a", beset(hdfs, stop))
        assert store.left_out & {hdfs.transfer_address(speakers[-1]), HOST}
        assert names(store) == []
    finally:
        os.kill(hdfs.datanode_pid(speakers[-1]), signal.SIGCONT)


def test_a_quota_that_is_used_up_is_told_as_a_full_disk_and_leaves_nothing(
    hdfs: Hdfs, root: str, store: HdfsStore
) -> None:
    store.put("a", [b"small"])
    hdfs.ask("PUT", "SETQUOTA", root, storagespacequota=str(8 * BLOCK))
    store.put("b", [b"a whole block of the usual size is more than the quota"])
    with pytest.raises(TemporaryStoreError, match=r"Disk quota exceeded .* Raise the quota"):
        store.put("c", iter([CHUNK] * 8))
    with pytest.raises(TemporaryStoreError, match=r"Disk quota exceeded .* Raise the quota"):
        store.put("c", [CHUNK, CHUNK, CHUNK])  # refused in the middle
    assert names(store) == ["a", "b"]
    assert unnamed(hdfs, root) == []


def test_a_namenode_that_dies_under_a_write_ends_it_and_is_no_empty_store(
    hdfs: Hdfs, store: HdfsStore
) -> None:
    store.put("a", [b"x"])
    with pytest.raises(TemporaryStoreError):
        store.put("b", beset(hdfs, hdfs.kill_namenode))
    with pytest.raises(TemporaryStoreError, match="does not answer"):
        store.entries("")
    with pytest.raises(TemporaryStoreError, match="does not answer"):
        read(store, "a")
    hdfs.mend()
    assert names(store) == ["a"]
    assert read(store, "a") == b"x"


@pytest.mark.torch
def test_a_save_whose_datanode_dies_in_its_middle_is_tried_again_elsewhere(
    hdfs: Hdfs, root: str, store: HdfsStore, start: Start, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    from checkpoint_job import INTERVAL, Job, persisted

    url = f"hdfs://{hdfs.address}{root}"
    job, agent = Job(tmp_path, store_url=url, elements=32_000_000), start()
    job.save(INTERVAL)
    agent.give(job.order(0))

    def stopped_in_its_middle() -> list[int]:
        os.kill(agent.pid, signal.SIGSTOP)
        if not (found := hdfs.writers()):
            os.kill(agent.pid, signal.SIGCONT)
        return found

    (nth,) = eventually(stopped_in_its_middle, "a DataNode has some of it")
    hdfs.kill_datanode(nth)
    os.kill(agent.pid, signal.SIGCONT)
    assert not [one for one in whole(store) if isinstance(one, Stored)], "nothing half published"
    agent.until(persisted(INTERVAL), "it is written after all")
    found = job.look_up(agent).stored
    assert [one.step for one in found] == [INTERVAL]
    assert torch.equal(job.restored(0, found[0]), torch.full((job.elements,), float(INTERVAL)))


ACTS: dict[str, Callable[[HdfsStore], object]] = {
    "write": lambda store: store.put("b", [b"x"]),
    "read": lambda store: b"".join(store.get("a")),
    "list": lambda store: store.entries(""),
    "delete": lambda store: store.delete("a"),
}


def refusals(store: HdfsStore) -> dict[str, StoreError]:
    """What this store does not do."""
    found = {}
    for what, act in ACTS.items():
        try:
            act(store)
        except StoreError as error:
            found[what] = error
    return found


def test_who_may_not_is_told_whom_to_ask(hdfs: Hdfs, store: HdfsStore, root: str) -> None:
    store.put("a", [b"kept"])
    hdfs.ask("PUT", "SETPERMISSION", root, permission="700")
    told = refusals(HdfsStore(hdfs.address, root, user="nobody"))
    assert told.keys() == ACTS.keys()
    for what, error in told.items():
        assert isinstance(error, PermanentStoreError)
        assert str(error).startswith(f"store: cannot {what} hdfs://{hdfs.address}{root}")
        assert "Permission denied: user=nobody" in str(error)
        assert "HDFS user read and write there (HADOOP_USER_NAME says who" in str(error)
    assert read(store, "a") == b"kept"


def test_a_snapshot_of_hdfs_is_no_place_to_write(hdfs: Hdfs, store: HdfsStore, root: str) -> None:
    store.put("a", [b"kept"])
    hdfs.ask("PUT", "ALLOWSNAPSHOT", root)
    hdfs.ask("PUT", "CREATESNAPSHOT", root, snapshotname="s")
    told = refusals(HdfsStore(hdfs.address, f"{root}/.snapshot/s"))
    assert told.keys() == {"write", "delete"}
    for error in told.values():
        assert isinstance(error, PermanentStoreError)
        assert "Give the job another storeUrl" in str(error)


def test_safe_mode_is_waited_for_and_named(hdfs: Hdfs, store: HdfsStore) -> None:
    store.put("a", [b"kept"])
    hdfs.administer("-safemode", "enter")
    try:
        told = refusals(store)
    finally:
        hdfs.administer("-safemode", "leave")
    assert told.keys() == {"write", "delete"}
    for error in told.values():
        assert isinstance(error, TemporaryStoreError)
        assert "`hdfs dfsadmin -safemode get` tells. It is tried again." in str(error)
    store.put("b", [b"later"])

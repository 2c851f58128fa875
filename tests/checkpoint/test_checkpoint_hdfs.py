"""A real HDFS under faults: what it shows as whole and is not, and what it does not answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checkpoint_agent import Start
from store_servers import hdfs_server
from waiting import eventually

from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores import TemporaryStoreError, webhdfs
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


def beset(hdfs: Hdfs, fault: Callable[[int], None]) -> Iterator[bytes]:
    """A file whose DataNode has the fault once it has taken some of it."""
    yield CHUNK
    (nth, *_) = eventually(hdfs.writers, "a DataNode has some of it")
    fault(nth)
    yield from (CHUNK for _ in range(16))


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


def test_a_datanode_that_dies_under_a_write_ends_it_and_the_next_goes_elsewhere(
    hdfs: Hdfs, store: HdfsStore
) -> None:
    store.put("a", [b"older"])
    killed: list[int] = []

    def kill(nth: int) -> None:
        hdfs.kill_datanode(nth)
        killed.append(nth)

    with pytest.raises(TemporaryStoreError, match="cannot write hdfs://"):
        store.put("a", beset(hdfs, kill))
    assert names(store) == ["a"]
    again(lambda: store.put("b", [CHUNK, CHUNK]))  # though the dead one is still named
    assert store.left_out <= {hdfs.transfer_address(killed[0]), HOST}
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


def test_a_datanode_that_is_stopped_ends_the_write_and_is_left_out(
    hdfs: Hdfs, store: HdfsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[int] = []

    def stop(nth: int) -> None:
        monkeypatch.setattr(webhdfs, "ANSWER_S", 5.0)
        stopped.append(nth)
        os.kill(hdfs.datanode_pid(nth), signal.SIGSTOP)

    def beset_in_time() -> Iterator[bytes]:
        yield from beset(hdfs, stop)

    monkeypatch.setattr(webhdfs, "ANSWER_S", 20.0)
    try:
        with pytest.raises(TemporaryStoreError, match="does not answer"):
            store.put("a", beset_in_time())
        assert store.left_out in ({hdfs.transfer_address(stopped[0])}, {HOST})  # once it is dead
        assert names(store) == []
    finally:
        for nth in stopped:
            os.kill(hdfs.datanode_pid(nth), signal.SIGCONT)


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
        store.put("b", beset(hdfs, lambda _: hdfs.kill_namenode()))
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
    eventually(hdfs.writers, "a DataNode has some of it")
    os.kill(agent.pid, signal.SIGSTOP)
    (nth,) = hdfs.writers()
    hdfs.kill_datanode(nth)
    os.kill(agent.pid, signal.SIGCONT)
    assert not [one for one in whole(store) if isinstance(one, Stored)], "nothing half published"
    agent.until(persisted(INTERVAL), "it is written after all")
    found = job.look_up(agent).stored
    assert [one.step for one in found] == [INTERVAL]
    assert torch.equal(job.restored(0, found[0]), torch.full((job.elements,), float(INTERVAL)))

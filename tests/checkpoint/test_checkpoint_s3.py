"""A real S3 server under faults: it dies in an upload, and what it took of that is never seen."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_agent import Start
from store_servers import s3_server
from waiting import eventually

from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores import PermanentStoreError, TemporaryStoreError, open_store
from holdfast.lab.stores.s3 import S3
from holdfast.protocol.messages import Stored

boto3 = pytest.importorskip("boto3")

from holdfast.checkpoint.stores import s3 as s3_module  # noqa: E402
from holdfast.checkpoint.stores.s3 import S3Store  # noqa: E402 - after the check for boto3

PART = bytes(17 << 20)


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with s3_server() as started:
        started.new_bucket("faults")
        yield started


@pytest.fixture
def store(server: S3, tmp_path: Path) -> Iterator[S3Store]:
    """The server runs again after the test."""
    yield S3Store("faults", tmp_path.name)
    if server.ended:
        server.start()


def read(store: S3Store, path: str) -> bytes:
    return b"".join(store.get(path))


def names(store: S3Store, folder: str = "") -> list[str]:
    return [entry.name for entry in store.entries(folder)]


def begun(store: S3Store) -> list[Any]:
    """Uploads that were begun below it and not ended."""
    answer = boto3.client("s3").list_multipart_uploads(Bucket="faults", Prefix=store.prefix)
    found: list[Any] = answer.get("Uploads", [])
    return found


def test_a_server_that_dies_in_an_upload_ends_it_and_shows_nothing_of_it(
    server: S3, store: S3Store
) -> None:
    store.put("folder/a", [b"older"])

    def beset() -> Iterator[bytes]:
        yield PART
        yield PART
        server.kill()
        yield PART

    with pytest.raises(TemporaryStoreError, match="the server does not answer"):
        store.put("folder/a", beset())
    with pytest.raises(TemporaryStoreError, match="the server does not answer"):
        store.entries("")
    server.start()
    assert read(store, "folder/a") == b"older"
    assert names(store, "folder") == ["a"]
    assert len(begun(store)) == 1, "nobody could give it up"
    store.delete("folder")
    assert begun(store) == []
    assert names(store) == []


def test_an_upload_that_breaks_off_is_given_up(store: S3Store) -> None:
    def broken() -> Iterator[bytes]:
        yield PART
        yield PART
        assert len(begun(store)) == 1
        raise RuntimeError("the slot is gone")

    with pytest.raises(RuntimeError, match="the slot is gone"):
        store.put("a", broken())
    assert begun(store) == []
    assert names(store) == []


def test_what_cannot_be_deleted_is_told(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 200, in the answer."""
    store.put("folder/a", [b"x"])
    refused = {"Errors": [{"Key": "folder/a", "Code": "AccessDenied", "Message": "no"}]}
    monkeypatch.setattr(store._s3, "delete_objects", lambda **_: refused)
    with pytest.raises(PermanentStoreError, match=r"cannot delete s3://faults/.* AccessDenied"):
        store.delete("folder")


def test_no_error_shows_what_an_endpoint_has_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:hush@127.0.0.1:9")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "silence")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    with pytest.raises(TemporaryStoreError) as told:
        open_store("s3://bucket").entries("")
    assert "hush" not in str(told.value)
    assert "silence" not in str(told.value)


@pytest.mark.torch
def test_a_save_whose_server_dies_in_its_middle_is_tried_again(
    server: S3, store: S3Store, start: Start, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    from checkpoint_job import INTERVAL, Job, persisted

    url = f"s3://faults/{tmp_path.name}"
    job, agent = Job(tmp_path, store_url=url, elements=32_000_000), start()
    job.save(INTERVAL)
    agent.give(job.order(0))
    eventually(lambda: begun(store), "it is being written")
    os.kill(agent.pid, signal.SIGSTOP)
    server.kill()
    os.kill(agent.pid, signal.SIGCONT)
    agent.until(lambda report: report.store_error, "it is told")
    server.start()
    assert not [one for one in whole(store) if isinstance(one, Stored)], "nothing half published"
    agent.until(persisted(INTERVAL), "it is written after all")
    found = job.look_up(agent).stored
    assert [one.step for one in found] == [INTERVAL]
    assert torch.equal(job.restored(0, found[0]), torch.full((job.elements,), float(INTERVAL)))


def test_parts_grow_so_that_ten_thousand_hold_any_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_module, "FLUSH_BYTES", 4)
    monkeypatch.setattr(s3_module, "DOUBLE_AFTER_PARTS", 3)
    parts = list(s3_module._parts([b"ab"] * 21))
    assert [len(part) for part in parts] == [4, 4, 4, 8, 8, 8, 6]
    assert b"".join(parts) == b"ab" * 21
    assert list(s3_module._parts([])) == []

"""The contract of every store, and uploads to one that is slow."""

import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from waiting import DEADLINE_S

from holdfast.checkpoint import upload as uploads
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.stores import (
    Buffer,
    NotStored,
    PermanentStoreError,
    Store,
    StoredFile,
    StoreError,
    open_store,
)
from holdfast.checkpoint.stores.file import FileStore


@pytest.fixture(params=["file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    assert request.param == "file"
    return open_store(f"file://{tmp_path}/the%20store")


def read(store: Store, path: str) -> bytes:
    return b"".join(store.get(path))


def test_a_file_comes_back_as_it_was_put(store: Store) -> None:
    store.put("folder/a", [b"one ", bytearray(b"two "), memoryview(b"three")])
    assert read(store, "folder/a") == b"one two three"
    big = os.urandom(10_000_000)
    store.put("folder/big", (big[at : at + 999_999] for at in range(0, len(big), 999_999)))
    assert read(store, "folder/big") == big


def test_a_second_put_replaces_the_first(store: Store) -> None:
    store.put("a", [b"long content"])
    store.put("a", [b"short"])
    assert read(store, "a") == b"short"


def test_a_put_that_breaks_off_changes_nothing_and_leaves_nothing(store: Store) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the slot is gone")

    store.put("folder/a", [b"whole"])
    for path in ("folder/a", "folder/b"):
        with pytest.raises(RuntimeError, match="the slot is gone"):
            store.put(path, broken())
    assert read(store, "folder/a") == b"whole"
    assert [entry.name for entry in store.entries("folder")] == ["a"]


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


def test_a_file_or_a_folder_with_all_in_it_can_be_deleted(store: Store) -> None:
    store.put("folder/a", [b"x"])
    store.put("folder/b", [b"x"])
    store.delete("folder/a")
    assert [entry.name for entry in store.entries("folder")] == ["b"]
    store.delete("folder")
    assert store.entries("") == []


def test_a_large_file_is_flushed_as_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all of it waits for one flush at its end, in which nobody sees whether it gets on."""
    flushed: list[int] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        flushed.append(os.fstat(fd).st_size)
        fsync(fd)

    monkeypatch.setattr("holdfast.checkpoint.stores.file.FLUSH_BYTES", 1_000)
    monkeypatch.setattr(os, "fsync", noted)
    sizes = []

    def chunks() -> Iterator[bytes]:
        for _ in range(4):
            sizes.append(len(flushed))
            yield bytes(600)

    FileStore(str(tmp_path)).put("large", chunks())
    assert sizes == [0, 0, 1, 1]
    assert flushed[:3] == [1_200, 2_400, 2_400]


def test_a_root_that_is_a_file_is_a_permanent_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PermanentStoreError, match="Give the job a storeUrl that is a folder"):
        open_store(f"file://{tmp_path}/file").put("a/b", [b"x"])


@pytest.mark.parametrize("url", ["", "relative/path", "file://host/path", "ftp://host/path"])
def test_an_address_that_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="is no store that this Holdfast knows"):
        open_store(url)


# ---------------------------------------------------------------- a slow one


class SlowStore(FileStore):
    """A real folder behind a thin pipe: one megabyte a second."""

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        def slowly() -> Iterator[Buffer]:
            for chunk in chunks:
                threading.Event().wait(len(chunk) / 1e6)
                yield chunk

        super().put(path, slowly())


@pytest.mark.torch
def test_under_a_slow_upload_the_newest_snapshot_of_all_ranks_keeps_advancing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from holdfast.checkpoint.checkpointer import Checkpointer
    from holdfast.checkpoint.settings import Settings
    from holdfast.checkpoint.slots import SlotFolder

    monkeypatch.setattr(uploads, "open_store", lambda url: SlowStore(str(tmp_path / "store")))
    ended, notes, ranks, saves = threading.Event(), list[str](), range(2), 100
    folders = [SlotFolder(tmp_path / f"r{rank}") for rank in ranks]
    checkpointers, threads, agents = [], [], []
    for rank in ranks:
        checkpointers.append(
            Checkpointer(
                Settings(
                    job="job", epoch=1, rank=rank, world_size=2,
                    slots=folders[rank].folder, store_interval_steps=2,
                )
            )
        )  # fmt: skip
        order = AgentOrder(
            id=1, job="job", epoch=1, ranks=(rank,), world_size=2, store_url="file:///slow",
            slots={rank: str(folders[rank].folder)}, store_interval_steps=2,
        )  # fmt: skip
        agent = uploads.Upload(order, tell=notes.append, go_on=lambda: None)
        agents.append(agent)

        def work(agent: uploads.Upload = agent) -> None:
            while not ended.wait(0.01):
                agent.advance()

        threads.append(threading.Thread(target=work))
    for thread in threads:
        thread.start()
    try:
        until_s = monotonic() + DEADLINE_S
        for step in itertools.count(1):
            told = agents[0].persisted_step is not None and agents[0].skipped > 0
            if (step > saves and told) or monotonic() > until_s:
                break
            for rank in ranks:
                assert checkpointers[rank].save(step, {"w": torch.full((100_000,), float(step))})
                sealed = [{seal.step for _, seal in folder.sealed()} for folder in folders]
                assert max(set.intersection(*sealed), default=0) >= step - 1
            ended.wait(0.02)  # the rest of the training step
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert [checkpointer.skipped for checkpointer in checkpointers] == [0, 0]
    assert agents[0].persisted_step is not None
    assert agents[0].skipped > 0, "the store was too slow for all of them, and that was counted"
    assert any("were not written: the store was still busy" in note for note in notes)

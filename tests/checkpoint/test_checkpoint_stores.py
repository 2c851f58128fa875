"""Which stores there are, a folder's flushes, and uploads to one that is slow. What every store
keeps: `test_checkpoint_store_contract`."""

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
    StoreError,
    open_store,
)
from holdfast.checkpoint.stores.file import FileStore


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


@pytest.mark.parametrize("url", ["", "relative/path", "file://host/path", "gopher://host/path"])
def test_an_address_that_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=f"storeUrl: {url!r} (is no store|names a host)"):
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
    from holdfast.checkpoint.slot_folder import SlotFolder

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


def test_every_new_name_on_the_way_to_a_file_outlives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []

    def noted(fd: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{fd}").removeprefix(str(tmp_path)))

    monkeypatch.setattr(os, "fsync", noted)
    FileStore(str(tmp_path / "life")).put("step/manifest.json", [b"{}"])
    *folders, file, last = flushed
    assert folders == ["", "/life"], "what has the new folders, from above"
    assert file.startswith("/life/step/.manifest.json."), "before it has its name"
    assert last == "/life/step"


def test_a_file_that_is_not_whole_is_neither_shown_nor_left(tmp_path: Path) -> None:
    store, seen = FileStore(str(tmp_path)), []

    def chunks() -> Iterator[bytes]:
        yield b"some"
        seen.extend(store.entries(""))
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        store.put("shard", chunks())
    assert seen == []
    assert list(tmp_path.iterdir()) == []

"""What a commit makes superfluous is deleted beside it: no acknowledgement waits for a deletion."""

import threading
from pathlib import Path

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.checkpoint import sweeping
from holdfast.checkpoint.fence import Superseded, raise_fence
from holdfast.checkpoint.layout import (
    BEGIN,
    MANIFEST,
    fence_name,
    folder_name,
    part_name,
    shard_name,
)
from holdfast.checkpoint.stores import TemporaryStoreError
from holdfast.checkpoint.stores.file import FileStore
from holdfast.checkpoint.sweeping import FAILURES, LONG_S, Committed, Sweeper, sweep
from holdfast.kit.clock import SystemClock

SHARD = shard_name(0, 1)


class Slow(FileStore):
    """A store whose deletions wait for `may`, or fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.may = threading.Event()
        self.deleted: list[str] = []
        self.fails = False

    def delete(self, path: str) -> None:
        if self.fails:
            raise TemporaryStoreError(f"store: cannot delete {path}: Input/output error.")
        assert self.may.wait(DEADLINE_S)
        self.deleted.append(path)
        super().delete(path)


@pytest.fixture
def store(tmp_path: Path) -> Slow:
    store = Slow(tmp_path)
    for step in (10, 20, 30, 40):
        for name in (SHARD, MANIFEST, BEGIN, part_name(0)):
            store.put(f"{folder_name(step, 1)}/{name}", [b"x"])
    return store


def committed(root: Path, **changes: int) -> Committed:
    fields = {"step": 40, "epoch": 1, "fence_epoch": 1, "retention": 2} | changes
    return Committed(store_url=f"file://{root}", **fields)


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("step-*"))


def test_parts_and_old_checkpoints_go_the_manifest_first(store: Slow, tmp_path: Path) -> None:
    store.may.set()
    sweep(store, committed(tmp_path), go_on=lambda: None)
    assert folders(tmp_path) == [folder_name(30, 1), folder_name(40, 1)]
    assert sorted(path.name for path in tmp_path.glob("*/*")) == sorted(2 * [MANIFEST, SHARD])
    old = [path for path in store.deleted if path.startswith(f"{folder_name(10, 1)}/")]
    assert old[-2:] == [f"{folder_name(10, 1)}/{MANIFEST}", f"{folder_name(10, 1)}/{SHARD}"]


def test_who_is_fenced_off_deletes_nothing(store: Slow, tmp_path: Path) -> None:
    raise_fence(store, 2)
    with pytest.raises(Superseded):
        sweep(store, committed(tmp_path), go_on=lambda: None)
    assert len(folders(tmp_path)) == 4
    sweep_of_the_new_one = committed(tmp_path, fence_epoch=2)
    store.may.set()
    sweep(store, sweep_of_the_new_one, go_on=lambda: None)
    assert len(folders(tmp_path)) == 2


def test_a_look_waits_for_no_deletion_and_old_fences_go_with_the_sweep(
    store: Slow, tmp_path: Path
) -> None:
    for epoch in (1, 2, 3):
        raise_fence(store, epoch)  # would wait for ever if it deleted
    assert store.deleted == []
    store.may.set()
    sweep(store, committed(tmp_path, fence_epoch=3), go_on=lambda: None)
    assert [path.name for path in tmp_path.glob("fence*")] == [fence_name(3)]


def test_a_fence_that_cannot_be_deleted_keeps_no_old_checkpoint(
    store: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in (1, 2):
        raise_fence(store, epoch)
    store.may.set()
    delete = store.delete

    def refused(path: str) -> None:
        store.fails = path == fence_name(1)
        delete(path)

    monkeypatch.setattr(store, "delete", refused)
    with pytest.raises(TemporaryStoreError, match="cannot delete fence"):
        sweep(store, committed(tmp_path, fence_epoch=2), go_on=lambda: None)
    assert folders(tmp_path) == [folder_name(30, 1), folder_name(40, 1)]


def test_the_fence_is_asked_before_each_old_checkpoint(store: Slow, tmp_path: Path) -> None:
    def another_attempt_begins() -> None:
        if any(MANIFEST in path for path in store.deleted):
            raise_fence(store, 2)

    store.may.set()
    with pytest.raises(Superseded):
        sweep(store, committed(tmp_path, retention=1), go_on=another_attempt_begins)
    assert folders(tmp_path) == [folder_name(step, 1) for step in (20, 30, 40)]


class Clock(SystemClock):
    """One that a test moves on."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def swept(store: Slow, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    """A sweeper in its thread, and what it said."""
    monkeypatch.setattr(sweeping, "open_store", lambda _: store)
    said: list[str] = []
    sweeper = Sweeper(clock, said.append)
    thread = threading.Thread(target=sweeper.run)
    thread.start()
    yield sweeper, said
    store.may.set()
    sweeper.close()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_after_another_attempt_has_begun_no_more_than_the_file_at_hand_goes(
    swept, store: Slow, tmp_path: Path
) -> None:
    sweeper, said = swept
    sweeper.give(committed(tmp_path))
    eventually(lambda: sweeper._now is not None, "it is at it")
    assert not sweeper.idle
    sweeper.stop()
    store.may.set()
    eventually(lambda: sweeper.idle, "it ends")
    sweeper.give(committed(tmp_path, retention=4))
    eventually(lambda: sweeper.idle, "it serves the next one")
    assert len(folders(tmp_path)) == 4
    assert said == []


def test_what_cannot_be_deleted_is_said_and_tried_again(swept, store: Slow, tmp_path: Path) -> None:
    sweeper, said = swept
    store.may.set()
    store.fails = True
    sweeper.give(committed(tmp_path))
    eventually(lambda: said, "said")
    assert said[0].startswith("old checkpoints are not deleted: store: cannot delete ")
    store.fails = False
    sweeper.give(committed(tmp_path))
    eventually(lambda: len(folders(tmp_path)) == 2, "deleted")


def sweeps(sweeper: Sweeper, root: Path) -> str:
    """Once; why nothing goes, as it is told then."""
    sweeper.give(committed(root))
    eventually(lambda: sweeper.idle, "it ends")
    return sweeper.undeleted(f"file://{root}")


def test_a_store_that_refuses_deletions_again_and_again_is_told_until_it_deletes(
    swept, store: Slow, tmp_path: Path
) -> None:
    sweeper, _ = swept
    store.may.set()
    store.fails = True
    told = [sweeps(sweeper, tmp_path) for _ in range(FAILURES + 1)]
    assert told[: FAILURES - 1] == [""] * (FAILURES - 1), "it may be over the next time"
    assert set(told[FAILURES - 1 :]) == {sweeper._why}
    assert sweeper._why.startswith("store: cannot delete step-")
    assert not sweeper.swept(f"file://{tmp_path}")
    assert sweeper.undeleted("file:///of-another-job") == ""
    store.fails = False
    assert sweeps(sweeper, tmp_path) == ""
    assert sweeper.swept(f"file://{tmp_path}")
    assert not sweeper.swept("file:///of-another-job")
    store.put(f"{folder_name(5, 1)}/{MANIFEST}", [b"x"])
    store.fails = True
    assert sweeps(sweeper, tmp_path) == "", "they are counted anew"


def test_a_deletion_that_hangs_is_told_while_it_does(
    swept, store: Slow, clock: Clock, tmp_path: Path
) -> None:
    sweeper, _ = swept
    url = f"file://{tmp_path}"
    sweeper.give(committed(tmp_path))
    eventually(lambda: sweeper._asked_s is not None, "it is at it")
    assert sweeper.undeleted(url) == ""
    clock.later_s = LONG_S + 1
    assert sweeper.undeleted(url).startswith(f"store: {url} has not ended a deletion for 60 s. See")
    sweeper.stop()
    assert sweeper.undeleted(url), "another attempt has begun, and it still hangs"
    store.may.set()
    eventually(lambda: sweeper._asked_s is None, "it ends")
    assert sweeper.undeleted(url) == ""

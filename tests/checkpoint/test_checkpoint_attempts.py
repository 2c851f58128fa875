"""What an attempt writes to the store is of that attempt alone, and ends with it."""

import errno
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402

from holdfast.checkpoint.agent_protocol import AgentOrder  # noqa: E402
from holdfast.checkpoint.fence import Superseded, raise_fence  # noqa: E402
from holdfast.checkpoint.layout import BEGIN, folder_name  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.checkpoint.upload import Upload  # noqa: E402
from holdfast.protocol.messages import Stored, UploadLimits  # noqa: E402

pytestmark = pytest.mark.torch

LARGE = 10_000_000
"""Elements of 4 bytes: at a megabyte a second longer than these tests wait."""
SLOWLY = UploadLimits(mb_per_s=1.0)


def upload(order: AgentOrder) -> Upload:
    return Upload(order, tell=lambda _: None, go_on=lambda: None)


def advance(one: Upload, *, times: int) -> None:
    for _ in range(times):
        one.advance()


def parts(job: Job) -> list[str]:
    return [str(path.relative_to(job.store)) for path in job.store.glob("*/part-*")]


def test_what_an_older_attempt_left_in_memory_is_not_written_as_the_newer_ones(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path)
    job.save(INTERVAL)
    job.epoch += 1
    upload(job.order(0)).advance()
    assert not job.store.exists()


def test_a_node_does_not_follow_what_an_older_attempt_had_begun(tmp_path: Path) -> None:
    job = Job(tmp_path, world_size=2)
    FileStore(str(job.store)).put(f"{folder_name(INTERVAL, 1)}/{BEGIN}", [b"{}"])
    job.epoch += 1
    job.ranks = [job.checkpointer(rank) for rank in range(2)]
    job.save(INTERVAL)
    follower = upload(job.order(1))
    follower.advance()
    assert parts(job) == []
    FileStore(str(job.store)).put(f"{folder_name(INTERVAL, 2)}/{BEGIN}", [b"{}"])
    follower.advance()
    assert parts(job) == [f"{folder_name(INTERVAL, 2)}/part-00001.json"]


def test_an_older_attempt_commits_nothing_once_a_newer_one_has_begun(tmp_path: Path) -> None:
    """All its parts are there, and those of the newer one may be of other weights."""
    job = Job(tmp_path, world_size=2)
    job.save(INTERVAL)
    leader, follower = upload(job.order(0)), upload(job.order(1))
    leader.advance()
    follower.advance()
    assert len(parts(job)) == 2
    raise_fence(FileStore(str(job.store)), job.epoch + 1)
    with pytest.raises(Superseded):
        advance(leader, times=10)
    assert not list(job.store.glob("*/manifest.json"))


def test_a_memory_without_room_for_a_word_keeps_no_checkpoint_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a DataLoader fill it, say. The slot is let go once there is room again."""
    job, notes = Job(tmp_path), []
    job.save(INTERVAL)
    one = Upload(job.order(0), tell=notes.append, go_on=lambda: None)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(SlotFolder, "put_uploaded", full)
        advance(one, times=2)
    assert one.persisted_step == INTERVAL
    assert "rank 0: step 10 stays in memory: the node's memory folder is full" in notes
    folder = SlotFolder(tmp_path / "r0")
    assert folder.uploaded() == (-1, -1)
    one.advance()
    assert folder.uploaded() == (1, INTERVAL)


def test_a_slot_that_was_taken_for_another_step_before_its_lock_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path)
    job.save(INTERVAL)
    one = upload(job.order(0))
    before = one._seals(0)
    SlotFolder(tmp_path / "r0").sealed()[0][0].break_seal()
    monkeypatch.setattr(one, "_seals", lambda rank: before)
    one.advance()
    assert parts(job) == []


def test_a_save_that_is_ordered_is_not_held_back(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path, elements=LARGE), start()
    job.save(INTERVAL + 3)
    job.epoch += 1
    wanted = Stored(step=INTERVAL + 3, epoch=1)
    agent.give(job.order(slots=(0,), save=wanted, look_up_store=True, upload=SLOWLY))
    agent.until(lambda report: report.stored == (wanted,), "it is in the store", 20)


def test_a_new_attempt_ends_what_the_older_one_is_writing(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path, elements=LARGE), start()
    job.save(INTERVAL)
    agent.give(job.order(0, upload=SLOWLY))
    job.epoch += 1
    job.ranks = [job.checkpointer(0)]
    agent.until(lambda report: report.snapshots, "it is believed")
    agent.give(job.order(0))
    job.save(2 * INTERVAL)
    agent.until(persisted(2 * INTERVAL), "the newer one has its own", 20)
    assert job.whole() == ["step-00000020-epoch-2"]

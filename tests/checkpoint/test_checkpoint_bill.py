"""The memory bill: one sentence before the first step, a warning where it cannot be paid."""

import logging
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from holdfast.checkpoint import slot_folder  # noqa: E402 - after the check that torch is there
from holdfast.checkpoint.bill import Bill  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("room_gb", "count", "then"),
    [
        (64, 4, "64 GB for them: enough"),
        (25, 3, "each rank does with 3 slots. Give it 32 GB"),
        (16, 2, "the older of its two newest snapshots is written over"),
        (15, 1, "its only snapshot is written over"),
        (7, 0, "snapshots are skipped"),
    ],
)
def test_the_bill_says_what_is_wanted_what_is_there_and_what_happens(
    room_gb: int, count: int, then: str
) -> None:
    bill = Bill(state_bytes=10**9, ranks=8, room_bytes=room_gb * 10**9, place="/dev/shm/x")
    assert bill.slots == count
    assert bill.enough == (count == 4)
    assert str(bill).startswith(
        "snapshots in memory: 1 GB a rank, 4 slots, 8 ranks on this node: 32 GB; /dev/shm/x has"
    )
    assert then in str(bill)


def test_copies_of_other_nodes_are_in_the_bill() -> None:
    bill = Bill(state_bytes=10**9, ranks=2, room_bytes=15 * 10**9, place="/dev/shm/x", for_copies=4)
    assert "4 slots and 4 for copies, 2 ranks on this node: 16 GB" in str(bill)
    assert bill.slots == 3


@pytest.mark.parametrize(("room", "level"), [(10**9, "INFO"), (10**5, "WARNING")])
def test_the_first_rank_of_a_node_says_it_before_the_first_step(
    tmp_path: Path,
    room: int,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(SlotFolder, "node_room_bytes", lambda self: room)
    caplog.set_level(logging.INFO, "holdfast.checkpoint")
    model = torch.nn.Linear(100, 100)
    for rank in range(2):
        settings = Settings(rank=rank, local_rank=rank, local_world_size=2, slots=tmp_path / "r")
        state = {"model": model, "optimizer": torch.optim.Adam(model.parameters())}
        Checkpointer(settings).restore(state)
    told = [one for one in caplog.records if "snapshots in memory" in one.message]
    assert [one.levelname for one in told] == [level]
    assert "2 ranks on this node" in told[0].message


def test_what_slots_of_this_job_have_already_counts_as_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [SlotFolder(tmp_path / name) for name in ("r0", "r1")]
    for folder in folders:
        folder.slots[0].make(1 << 20)
    monkeypatch.setattr(slot_folder, "free_bytes", lambda folder: 100)
    monkeypatch.setattr(slot_folder.cgroup, "free_bytes", lambda: 50)
    assert folders[0].node_room_bytes() == (2 << 20) + 50
    monkeypatch.setattr(slot_folder.cgroup, "free_bytes", lambda: None)
    assert folders[0].node_room_bytes() == (2 << 20) + 100

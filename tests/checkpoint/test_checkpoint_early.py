"""Slots that are made before a rank saves: their pages are there, and nobody is in its way."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import Job  # noqa: E402
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.early import PIECE_BYTES, SHARE, Early  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.rotation import SLOTS  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.kit.clock import SystemClock  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402

pytestmark = pytest.mark.torch

SLOT_BYTES = 2 * PIECE_BYTES + 4096


def pages(path: Path) -> tuple[int, int]:
    """How many pages of a file are there, cleared or written, and how many it has; mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size = path.stat().st_size
    told = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    fd = os.open(path, os.O_RDONLY)
    try:
        where = ctypes.c_void_p(
            libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        )
        assert libc.mincore(where, ctypes.c_size_t(size), told) == 0
        libc.munmap(where, ctypes.c_size_t(size))
    finally:
        os.close(fd)
    return sum(each & 1 for each in told), len(told)


def all_there(folder: Path) -> bool:
    paths = [folder / f"slot-{number}.data" for number in range(SLOTS)]
    if not all(path.exists() for path in paths):
        return False
    return all(there == of > 0 for there, of in map(pages, paths))


class Ticking(SystemClock):
    """Each look at it takes a second."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where a page may have been given out and not be there; not as a keeper names its
    own, or the next one that starts would sweep it."""
    with TemporaryDirectory(prefix="tests-of-early-", dir="/dev/shm") as made:
        yield Path(made)


def early(folder: Path, notes: list[str] | None = None, **others: Any) -> Early:
    slots = SlotFolder(folder / "r0")
    slots.ask_room(SLOT_BYTES)
    return Early({0: slots}, ([] if notes is None else notes).append, **others)


def test_pages_of_all_slots_are_there_before_the_first_save(folder: Path, start: Start) -> None:
    job, agent = Job(folder), start()
    agent.give(job.order(0))
    job.ranks[0].restore({"w": torch.zeros(SLOT_BYTES // 4)})
    eventually(lambda: all_there(folder / "r0"), "four slots with their pages")


def test_the_first_snapshot_of_a_rank_that_restored_nothing_tells_what_the_others_need(
    folder: Path, start: Start
) -> None:
    job, agent = Job(folder), start()
    agent.give(job.order(0))
    job.save(1)
    eventually(lambda: all_there(folder / "r0"), "four slots with their pages")


def test_a_rank_saves_into_a_slot_whose_pages_are_just_touched(folder: Path) -> None:
    job, w = Job(folder), torch.arange(SLOT_BYTES // 2)
    saves = iter([lambda: job.ranks[0].save(1, {"w": w})])
    early(folder).fill(lambda _seconds: next(saves, bool)())
    assert [one.step for one in Memory("job", {0: str(folder / "r0")}, pytest.fail).look()] == [1]
    state = {"w": torch.zeros_like(w)}
    assert job.checkpointer(0, Restore(source="memory", step=1, epoch=1)).restore(state) == 1
    assert torch.equal(state["w"], w)


def test_a_slot_in_which_a_rank_has_saved_less_is_filled_to_its_end(folder: Path) -> None:
    """It had been made, and was not yet touched, when the rank took it."""
    job, slots = Job(folder), SlotFolder(folder / "r0")
    slots.ask_room(SLOT_BYTES)
    for slot in slots.slots:
        slot.make(slots.room_bytes())
    job.save(1)
    early(folder).fill(lambda _seconds: None)
    assert all_there(folder / "r0")


def test_a_slot_that_its_rank_empties_while_it_is_touched_stays_empty(folder: Path) -> None:
    slot = SlotFolder(folder / "r0").slots[0]

    def empty(_seconds: float) -> None:
        with slot.locked(exclusive=True) as fd:
            assert fd is not None
            slot.empty(fd)

    early(folder).fill(empty)
    assert slot.data.stat().st_blocks == 0


def test_touching_takes_no_more_than_its_share_of_a_core(folder: Path) -> None:
    rests: list[float] = []
    early(folder, clock=Ticking()).fill(rests.append)
    touched_s = 3.0 * SLOTS  # three pieces a slot, of a second each
    assert touched_s / (touched_s + sum(rests)) <= SHARE
    assert len(rests) == 3 * SLOTS
    assert all_there(folder / "r0")


def test_no_page_is_touched_twice(folder: Path) -> None:
    rests: list[float] = []
    first = early(folder)
    first.fill(rests.append)
    first.fill(rests.append)
    early(folder, before=first).fill(rests.append)
    assert len(rests) == 3 * SLOTS


@pytest.mark.parametrize(
    ("free", "made"), [(0, 0), (2 * SLOT_BYTES - 1, 0), (2 * SLOT_BYTES, SLOTS)]
)
def test_slots_are_made_early_only_where_as_much_again_is_free(
    folder: Path, free: int, made: int
) -> None:
    notes: list[str] = []
    early(folder, notes, free_bytes=lambda: free).fill(float)
    assert len(list((folder / "r0").glob("slot-*.data"))) == made
    assert [note for note in notes if "has not twice as much left" in note] == notes
    assert bool(notes) == (made == 0)
    assert Job(folder).ranks[0].save(1, {"w": torch.zeros(SLOT_BYTES // 4)}), "a rank takes it"


def test_where_a_page_cannot_be_mapped_the_agent_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("holdfast.checkpoint.early.mmap.mmap", no_room)
    early(folder).fill(lambda _seconds: None)
    monkeypatch.undo()
    assert Job(folder).ranks[0].save(1, {"w": torch.zeros(4)})


def test_who_leaves_touches_no_further_page(folder: Path) -> None:
    made = early(folder)
    made.fill(lambda _seconds: made.leave())
    there, _ = pages(folder / "r0" / "slot-0.data")
    assert there == PIECE_BYTES // mmap.PAGESIZE
    assert not (folder / "r0" / "slot-1.data").exists()

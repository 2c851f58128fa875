"""A bit that flips in a slot's seal or header makes that slot unreadable, said once, no more."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402 - after the check that torch is there
from hypothesis import strategies as st  # noqa: E402

from holdfast.checkpoint import checked  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.rotation import SLOTS  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.words import SEAL, Seal, Skipped  # noqa: E402

pytestmark = pytest.mark.torch


class Rank:
    """A rank with a few snapshots, and the agent that looks at them."""

    def __init__(self, root: Path) -> None:
        self.root = root / "r0"
        self.notes: list[str] = []
        self.checkpointer = Checkpointer(Settings(job="job", epoch=1, slots=self.root))

    def save(self, *steps: int) -> None:
        for step in steps:
            assert self.checkpointer.save(step, {"w": torch.full((4,), float(step))})

    def offered(self) -> list[int]:
        """The steps that an agent which has just begun believes."""
        found = Memory("job", {0: str(self.root)}, self.notes.append).look()
        return [snapshot.step for snapshot in found]

    def slot_of(self, step: int) -> tuple[Path, Path, Seal]:
        slot, seal = next(one for one in SlotFolder(self.root).sealed() if one[1].step == step)
        return slot.data, slot.data.with_suffix(".seal"), seal


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_no_bit_of_a_seal_can_flip_and_be_believed(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.save(1)
    _, path, seal = rank.slot_of(1)
    written = path.read_bytes()
    assert checked.decode(written, SEAL) == seal
    for bit in range(8 * len(written)):
        with pytest.raises(checked.Altered):
            checked.decode(flipped(written, bit), SEAL)


def test_no_bit_of_a_header_can_flip_and_be_believed(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.save(1)
    data, _, seal = rank.slot_of(1)
    slot = next(slot for slot in SlotFolder(rank.root).slots if slot.data == data)
    whole = data.read_bytes()
    with slot.locked(exclusive=False) as fd, data.open("r+b", buffering=0) as file:
        assert fd is not None
        for bit in range(8 * seal.head_bytes):
            file.seek(bit // 8)
            file.write(flipped(whole, bit)[bit // 8 : bit // 8 + 1])
            assert slot.is_known(fd, seal) is False, f"bit {bit}"
            file.seek(bit // 8)
            file.write(whole[bit // 8 : bit // 8 + 1])
        assert slot.is_known(fd, seal) is True


@pytest.mark.parametrize("part", ["seal", "header"])
def test_a_slot_with_a_flipped_bit_is_told_once_freed_and_written_anew(
    tmp_path: Path, part: str
) -> None:
    rank = Rank(tmp_path)
    rank.save(*range(1, SLOTS + 1))
    data, path, seal = rank.slot_of(SLOTS)
    for bit in range(0, 8 * (len(path.read_bytes()) if part == "seal" else seal.head_bytes), 211):
        newest = max(rank.offered())
        data, path, _ = rank.slot_of(newest)
        rank.notes.clear()
        hurt = path if part == "seal" else data
        with hurt.open("r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(flipped(content, bit))
        assert newest not in rank.offered()
        assert newest not in rank.offered()
        assert len(rank.notes) == 1, rank.notes
        assert rank.notes[0].startswith("rank 0: the "), rank.notes
        assert "has changed since it was" in rank.notes[0]
        rank.save(*range(newest + 1, newest + 1 + SLOTS))
        assert rank.offered()[:2] == [newest + SLOTS, newest + SLOTS - 1], "every slot is used"
        assert len(rank.notes) == 1


def test_a_header_that_flips_between_two_saves_is_written_anew_by_the_next(tmp_path: Path) -> None:
    rank = Rank(tmp_path)
    rank.save(*range(1, SLOTS + 1))
    for path in rank.root.glob("slot-*.data"):
        with path.open("r+b") as file:
            file.seek(9)
            file.write(b"\xff")
    rank.save(*range(SLOTS + 1, 2 * SLOTS + 1))
    assert rank.offered() == [8, 7, 6, 5]
    assert rank.notes == []


@given(st.data())
def test_a_word_of_rank_or_agent_with_a_flipped_bit_is_no_word(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = SlotFolder(tmp_path_factory.mktemp("words"))
    folder.ask_room(1_000)
    folder.put_uploaded(epoch=1, step=50)
    folder.put_skipped(Skipped(epoch=1, count=3, in_a_row=2, why="no room"))
    name = data.draw(st.sampled_from(["wanted", "drained", "skipped"]))
    written = (folder.folder / name).read_bytes()
    bit = data.draw(st.integers(0, 8 * len(written) - 1))
    (folder.folder / name).write_bytes(flipped(written, bit))
    said = {
        "wanted": folder.room_bytes(),
        "drained": folder.uploaded(),
        "skipped": folder.skipped(1).count,
    }
    nothing = {"wanted": 0, "drained": (-1, -1), "skipped": 0}
    assert said == {"wanted": 1_000, "drained": (1, 50), "skipped": 3, name: nothing[name]}

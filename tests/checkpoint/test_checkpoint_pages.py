"""A slot's pages are in the rank's tables before a save copies into it."""

import mmap
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from holdfast.checkpoint import pages  # noqa: E402 - after the check that torch is there
from holdfast.checkpoint.filling import Area  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402

pytestmark = pytest.mark.torch


def resident_bytes(file: Path) -> int:
    """What of its mappings here is in memory and in our tables."""
    found = re.search(rf"{re.escape(str(file))}\n(?:.*\n)*?Rss: +(\d+) kB", smaps())
    assert found is not None
    return int(found[1]) << 10


def smaps() -> str:
    return Path("/proc/self/smaps").read_text()


@pytest.mark.parametrize("pieces", [1, 5], ids=["in one piece", "in several"])
def test_they_all_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    size = 5 << 20
    monkeypatch.setattr(pages, "PIECE_BYTES", size // pieces // mmap.PAGESIZE * mmap.PAGESIZE)
    slot = SlotFolder(tmp_path / "r0").slots[0]
    slot.make(size)
    area = Area(slot)
    assert resident_bytes(slot.data) == size
    assert area.place[1] == size


def test_the_rest_of_a_slot_is_entered_too_and_to_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only what may be written has pages of its own: what is read is the kernel's page of zeros."""
    monkeypatch.setattr(pages, "PIECE_BYTES", 2 << 20)
    size = (5 << 20) + mmap.PAGESIZE
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        before = _anonymous_kb()
        pages.enter(area, to_write=True)
        assert _anonymous_kb() - before >= size >> 10


def _anonymous_kb() -> int:
    return sum(int(kb) for kb in re.findall(r"^Anonymous: +(\d+) kB", smaps(), re.M))

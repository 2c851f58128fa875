"""What an agent's look at a node's slots believes, while their ranks go on writing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_slots import held, made_seal, put_snapshot

from holdfast.checkpoint.memory import Memory
from holdfast.checkpoint.slots import Slot


def test_a_slot_that_is_written_over_under_a_look_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seal that was read first says nothing of what lies there by now."""
    slot, locked = put_snapshot(tmp_path, made_seal(1)), Slot.locked

    @contextmanager
    def late(self: Slot, *, exclusive: bool) -> Iterator[int | None]:
        monkeypatch.setattr(Slot, "locked", locked)
        slot.break_seal()
        put_snapshot(tmp_path, made_seal(5))
        with locked(self, exclusive=exclusive) as fd:
            yield fd

    notes: list[str] = []
    memory = Memory("job", {0: str(tmp_path)}, notes.append)
    monkeypatch.setattr(Slot, "locked", late)
    assert memory.look() == ()
    assert held(tmp_path) == [(1, 5)]
    assert [one.step for one in memory.look()] == [5]
    assert notes == []

"""A script that says its steps to the checkpointer alone is known by their numbers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402
from holdfast.telemetry import current  # noqa: E402
from holdfast.telemetry.recorder import Recorder  # noqa: E402
from holdfast.telemetry.ring import RingReader, RingWriter  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Of this process, which counts no optimizer steps by itself."""
    made = Recorder(RingWriter(tmp_path / "r.ring", rank=0, epoch=1))
    monkeypatch.setattr(current, "recorder", made)
    return made


def test_steps_go_on_from_the_one_that_was_restored(tmp_path: Path, recorder: Recorder) -> None:
    slots = tmp_path / "r0"
    first = Checkpointer(Settings(job="job", epoch=1, slots=slots))
    state = {"w": torch.zeros(3)}
    recorder.stepped()
    assert first.save(1, state)
    assert RingReader(tmp_path / "r.ring").read().partial == ()
    Memory("job", {0: str(slots)}, lambda _: None).look()
    wanted = Restore(source="memory", step=1, epoch=1)
    again = Checkpointer(Settings(job="job", epoch=2, slots=slots, restore=wanted))
    recorder.step = 700  # of another process
    assert again.restore(state) == 1
    recorder.stepped()
    assert RingReader(tmp_path / "r.ring").read().step == 2

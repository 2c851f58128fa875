"""Snapshots of tensors on a GPU: copied beside the next step they hold what a copy at once holds.

The device is kept busy before each copy, so that whoever does not wait for it is seen.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from slot_sums import sum_of  # noqa: E402 - after the check for torch

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.filling import Area  # noqa: E402
from holdfast.checkpoint.layout import parse_head  # noqa: E402
from holdfast.checkpoint.overlap import TRIALS  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.slots import mapped  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

STEPS = TRIALS + 4
WIDTH = 256
BUSY_CYCLES = 100_000_000
"""Of the device before each late copy: some 50 ms."""


class Script:
    """A small training on the GPU, with dropout and a norm whose statistics change."""

    def __init__(self, root: Path, *, overlap: bool, **options: Any) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.BatchNorm1d(WIDTH),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(WIDTH, 1),
        ).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05, **options)
        self.state: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "stamp": torch.zeros(100, device="cuda"),
        }
        self.folder = SlotFolder(root / ("late" if overlap else "at-once"))
        self.checkpointer = Checkpointer(
            Settings(job="job", epoch=1, slots=self.folder.folder),
            overlap=[self.optimizer] if overlap else [],
        )
        self.held: dict[int, dict[str, bytes]] = {}

    def step(self, step: int) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(torch.randn(64, WIDTH, device="cuda")).square().mean()
        loss.backward()
        self.optimizer.step()
        self.state["stamp"].fill_(step)
        return float(loss.detach())

    def note(self) -> None:
        """Remember what is sealed: slots are written over."""
        for slot, seal in self.folder.sealed():
            with slot.locked(exclusive=False) as fd:
                assert fd is not None
                assert sum_of(slot, fd, seal) == slot.known_sum(seal)
                with mapped(fd, writable=False) as data:
                    self.held[seal.step] = {
                        name: bytes(data[placed.begin : placed.end])
                        for name, placed in parse_head(data).tensors.items()
                    }


Between = Callable[[Script], None]


def nothing(script: Script) -> None:
    pass


def by_data(script: Script) -> None:
    script.model[0].weight.data.mul_(1.5)


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    put = Area.put

    def late(self: Area, tensors: Any, *, wait: bool = True) -> None:
        if not wait:
            torch.cuda._sleep(BUSY_CYCLES)
        put(self, tensors, wait=wait)

    monkeypatch.setattr(Area, "put", late)


def play(root: Path, between: Between, *, overlap: bool, **options: Any) -> Script:
    script = Script(root, overlap=overlap, **options)
    for step in range(1, STEPS + 1):
        script.step(step)
        script.checkpointer.save(step, script.state)
        between(script)
        script.note()
    script.checkpointer.finish()
    script.note()
    return script


@pytest.mark.parametrize(
    "options",
    [{"foreach": True}, {"fused": True}, {"foreach": True, "capturable": True}],
    ids=["foreach", "fused", "capturable"],
)
def test_late_copies_hold_what_copies_at_once_hold(
    memory: Path, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    at_once = play(memory, nothing, overlap=False, **options)
    late = play(memory, nothing, overlap=True, **options)
    assert late.held == at_once.held
    assert late.checkpointer.skipped == 0
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_the_device_writes_to_slots_by_itself(memory: Path) -> None:
    script = play(memory, nothing, overlap=True)
    assert pinned(script) == len(script.checkpointer._areas) > 0


def test_what_cannot_be_pinned_is_copied_all_the_same(
    tmp_path: Path, memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_disk = play(tmp_path, nothing, overlap=True)
    if pinned(on_disk):
        pytest.skip("this file system can be pinned")
    assert on_disk.held == play(memory, nothing, overlap=True).held
    assert [each.message for each in caplog.records if "cannot be pinned" in each.message]


def pinned(script: Script) -> int:
    """How many of its slots are."""
    views = [area.views(area._views) for area in script.checkpointer._areas.values()]
    return sum(all(one.is_pinned() for one in each.values()) for each in views)


def test_who_writes_by_another_way_has_no_torn_snapshot(memory: Path) -> None:
    at_once = play(memory, by_data, overlap=False)
    late = play(memory, by_data, overlap=True)
    assert late.held
    assert all(held == at_once.held[step] for step, held in late.held.items())


def test_what_is_restored_goes_on_as_it_would_have(memory: Path) -> None:
    one = Script(memory, overlap=True)
    for step in range(1, STEPS):
        one.step(step)
        one.checkpointer.save(step, one.state)
    one.checkpointer.finish()
    losses = [one.step(step) for step in range(STEPS, STEPS + 5)]

    other = Script(memory, overlap=True)
    wanted = Restore(step=STEPS - 1, source="memory", epoch=1)
    settings = Settings(job="job", epoch=2, slots=other.folder.folder, restore=wanted)
    assert Checkpointer(settings).restore(other.state) == STEPS - 1
    assert other.model[0].weight.is_cuda
    assert [other.step(step) for step in range(STEPS, STEPS + 5)] == losses

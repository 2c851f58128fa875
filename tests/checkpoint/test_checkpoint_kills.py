"""A writer killed at any moment leaves no slot that is sealed but wrong."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from slot_sums import sum_of  # noqa: E402 - after the check that torch is there
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.layout import parse_head  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.slots import mapped  # noqa: E402
from holdfast.checkpoint.tensors import view  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module", autouse=True)
def imported_once() -> None:
    """Every optimizer imports it: here, not in each child, nor by workers that run no test here."""
    pytest.importorskip("torch._dynamo")


KILLS = 100
ELEMENTS = 60_000
"""Large enough that most kills fall into a copy."""


def stamped(step: int) -> dict[str, torch.Tensor]:
    """A state in which every element depends on the step: a mixture of two steps shows."""
    ramp = torch.arange(ELEMENTS, dtype=torch.float32)
    return {"a": ramp + step, "b": (ramp * 3 + step).to(torch.int64), "c": torch.tensor(step)}


def write_until_killed(folder: Path, epoch: int, first: int) -> None:
    checkpointer = Checkpointer(Settings(job="job", epoch=epoch, slots=folder))
    step = first
    while True:
        step += 1
        checkpointer.save(step, stamped(step))


class Stamping(torch.optim.Optimizer):
    """Its step puts the next step's stamp into what it owns."""

    def __init__(self, owned: dict[str, torch.Tensor], first: int) -> None:
        super().__init__(list(owned.values()), {})  # type: ignore[no-untyped-call]
        self.owned, self.at = owned, first

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.at += 1
        for name, tensor in self.owned.items():
            tensor.copy_(stamped(self.at)[name])


def overlap_until_killed(folder: Path, epoch: int, first: int) -> None:
    """`a` is copied late, `b` and `c` within the save."""
    state = stamped(first)
    optimizer = Stamping({"a": state["a"]}, first)
    checkpointer = Checkpointer(Settings(job="job", epoch=epoch, slots=folder), overlap=optimizer)
    while True:
        optimizer.step()
        made = stamped(optimizer.at)
        state["b"].copy_(made["b"])
        state["c"].copy_(made["c"])
        checkpointer.save(optimizer.at, state)


def check(folder: SlotFolder) -> int:
    """How many slots are sealed; each has exactly what its step had."""
    sealed = folder.sealed()
    for slot, seal in sealed:
        with slot.locked(exclusive=False) as fd:
            assert fd is not None, "the dead still hold a lock"
            with mapped(fd, writable=True) as data:
                placed = parse_head(data).tensors
                for name, expected in stamped(seal.step).items():
                    found = view(data, placed[name])
                    assert torch.equal(found, expected), f"{slot} {name} of step {seal.step}"
                    del found
            assert sum_of(slot, fd, seal) == slot.known_sum(seal)
    return len(sealed)


@pytest.mark.parametrize("until_killed", [write_until_killed, overlap_until_killed])
def test_a_hundred_kills_leave_nothing_sealed_but_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], until_killed: Callable[..., None]
) -> None:
    rng, folder = random.Random(5), SlotFolder(tmp_path / "r0")
    torch.set_num_threads(1)
    sealed, first = 0, 0
    for epoch in range(1, KILLS + 1):
        child = os.fork()
        if child == 0:
            try:
                until_killed(folder.folder, epoch, first)
            finally:
                os._exit(1)
        eventually(
            lambda epoch=epoch: any(seal.epoch == epoch for _, seal in folder.sealed()),
            "the writer has sealed something",
        )
        time.sleep(rng.uniform(0, 0.005))  # the moment of the kill, not a wait for anything
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        sealed += check(folder)
        first = max(seal.step for _, seal in folder.sealed())
    assert sealed >= 2 * KILLS

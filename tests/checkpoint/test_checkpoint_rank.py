"""A rank's saves and restores: bitwise, in place, and refused before anything changes."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402 - after the check that torch is there

from holdfast.checkpoint import tree  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.restoring import RestoreFailed  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.slots import Slot  # noqa: E402
from holdfast.checkpoint.words import Seal  # noqa: E402
from holdfast.protocol.messages import Restore, Snapshot  # noqa: E402
from holdfast.protocol.topology import Topology  # noqa: E402

pytestmark = pytest.mark.torch


class Training:
    """A script with all that a resume must bring back: dropout, momentum, a schedule, a sampler."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=9)
        self.state: dict[str, Any] = {
            "model": self.model,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "data": {"position": 0, "order": [1, 2], "seen": torch.zeros(3, dtype=torch.int64)},
        }

    def step(self) -> float:
        noise = random.random() + float(np.random.random())
        self.optimizer.zero_grad()
        loss = (self.model(torch.randn(4, 6)) * noise).square().mean()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.state["data"]["position"] += 1
        self.state["data"]["order"].append(self.state["data"]["position"])
        self.state["data"]["seen"] += 1
        return float(loss.detach())


def settings(folder: Path, **changes: Any) -> Settings:
    return Settings(**{"job": "job", "epoch": 1, "slots": folder / "r0", **changes})


def agree(folder: Path, rank: int = 0) -> tuple[Snapshot, ...]:
    """What the agent does before a restore: hash and verify."""
    notes: list[str] = []
    return Memory("job", {rank: str(folder / f"r{rank}")}, notes.append).look()


def restored(folder: Path, step: int, epoch: int = 1, **changes: Any) -> Checkpointer:
    wanted = Restore(source="memory", step=step, epoch=epoch)
    return Checkpointer(settings(folder, epoch=epoch + 1, restore=wanted, **changes))


def test_a_resumed_run_is_bitwise_the_run_that_was_not_interrupted(tmp_path: Path) -> None:
    training = Training()
    checkpointer = Checkpointer(settings(tmp_path))
    assert checkpointer.restore(training.state) is None
    for step in range(1, 6):
        training.step()
        assert checkpointer.save(step, training.state)
    losses = [training.step() for _ in range(4)]
    agree(tmp_path)

    again = Training()
    assert restored(tmp_path, 5).restore(again.state) == 5
    assert again.state["data"]["position"] == 5
    assert again.state["data"]["order"] == [1, 2, 1, 2, 3, 4, 5]
    assert [again.step() for _ in range(4)] == losses
    ours, theirs = again.model.state_dict(), training.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert again.schedule.get_last_lr() == training.schedule.get_last_lr()


def test_tensors_keep_their_memory_and_saved_state_is_not_shared_with_the_slot(
    tmp_path: Path,
) -> None:
    training = Training()
    training.step()
    Checkpointer(settings(tmp_path)).save(1, training.state)
    agree(tmp_path)
    seen = training.state["data"]["seen"]
    restored(tmp_path, 1).restore(training.state)
    assert training.state["data"]["seen"] is seen
    losses = [training.step() for _ in range(2)]
    assert agree(tmp_path) == (Snapshot(rank=0, step=1, epoch=1),), "the slot was written to"
    restored(tmp_path, 1).restore(training.state)
    assert [training.step() for _ in range(2)] == losses


def test_every_element_type_and_shape_comes_back(tmp_path: Path) -> None:
    from holdfast.checkpoint.tensors import _TYPES

    made = {
        name: torch.arange(6, dtype=torch.float32).reshape(2, 3).to(dtype)
        for name, dtype in _TYPES.items()
    }
    made |= {"none": torch.zeros(0, 4), "one": torch.tensor(2.5), "cross": made["F32"].t()}
    Checkpointer(settings(tmp_path)).save(1, {"t": made})
    agree(tmp_path)
    empty = {"t": {name: torch.zeros_like(one) for name, one in made.items()}}
    restored(tmp_path, 1).restore(empty)
    for name, one in made.items():
        back = empty["t"][name]
        assert back.dtype == one.dtype
        assert bytes(back.contiguous().untyped_storage()) == bytes(
            one.contiguous().untyped_storage()
        ), name


def test_structure_that_json_lacks_comes_back(tmp_path: Path) -> None:
    state = {
        "odd": {1: "int key", "$tensor": (1, (2.5, None)), 7: float("inf")},
        "big": 2**80,
        "tied": None,
    }
    Checkpointer(settings(tmp_path)).save(1, state)
    agree(tmp_path)
    back: dict[str, Any] = {"odd": None, "big": None, "tied": None}
    restored(tmp_path, 1).restore(back)
    assert back == state
    assert type(back["odd"]["$tensor"]) is tuple


def test_tied_tensors_are_saved_once_and_both_come_back(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(4, 3), "head": torch.nn.Linear(3, 4)})
    model["head"].weight = model["embed"].weight
    taken = tree.take_apart({"model": model})
    assert "model.head.weight" not in taken.tensors
    Checkpointer(settings(tmp_path)).save(1, {"model": model})
    agree(tmp_path)
    value = model["embed"].weight.detach().clone()
    with torch.no_grad():
        model["embed"].weight.zero_()
    restored(tmp_path, 1).restore({"model": model})
    assert torch.equal(model["head"].weight, value)


OTHER = torch.float8_e4m3fnuz
"""A type that safetensors does not have."""


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"a": object()}, "a: a object is neither a tensor, nor JSON"),
        ({"a": {"b": [np.array([{}])]}}, "a.b.0: a ndarray of object, which may hold any"),
        ({"a": {2.5: 1}}, "a: the key 2.5"),
        ({"a": torch.eye(2).to_sparse()}, "a: a Tensor"),
        ({"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}}, "a.b: two tensors of the state"),
        ({"a": torch.empty(1, dtype=OTHER)}, "a: torch.float8_e4m3fnuz cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_named_by_its_path(
    tmp_path: Path, state: dict[str, Any], why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        Checkpointer(settings(tmp_path)).save(1, state)
    assert SlotFolder(tmp_path / "r0").sealed() == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s.update(extra=torch.ones(1)), "extra: not in the checkpoint"),
        (lambda s: s.update(w=torch.ones(3)), r"w: torch.float32 \[3\] here, but .* \[2\]"),
        (lambda s: s.update(w=torch.ones(2).double()), "w: torch.float64"),
        (lambda s: s.update(n=torch.ones(1)), "n: a tensor here, but the checkpoint has 3"),
        (lambda s: s.update(w={}), "w: a dict here"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_left_as_it_was(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    Checkpointer(settings(tmp_path)).save(1, {"first": torch.ones(2), "w": torch.ones(2), "n": 3})
    agree(tmp_path)
    state: dict[str, Any] = {"first": torch.zeros(2), "w": torch.zeros(2), "n": 0}
    change(state)
    with pytest.raises(tree.Mismatch, match=why):
        restored(tmp_path, 1).restore(state)
    assert torch.equal(state["first"], torch.zeros(2))


def test_a_flipped_bit_in_memory_is_never_loaded(tmp_path: Path) -> None:
    checkpointer = Checkpointer(settings(tmp_path))
    for step in (1, 2):
        checkpointer.save(step, {"w": torch.full((1_000,), float(step))})
    assert [one.step for one in agree(tmp_path)] == [2, 1]
    slot, seal = SlotFolder(tmp_path / "r0").sealed()[0]
    with slot.data.open("r+b") as file:
        file.seek(seal.used_bytes - 5)
        byte = file.read(1)[0]
        file.seek(seal.used_bytes - 5)
        file.write(bytes([byte ^ 4]))
    state = {"w": torch.zeros(1_000)}
    with pytest.raises(RestoreFailed, match=r"step 2 in the memory .* its checksum does not match"):
        restored(tmp_path, 2).restore(state)
    assert float(state["w"].sum()) == 0
    checkpointer.save(3, {"w": torch.full((1_000,), 3.0)})
    assert [one.step for one in agree(tmp_path)] == [3, 1], "the rank has said so"


def test_a_bit_that_flips_before_the_agent_looks_is_never_loaded(tmp_path: Path) -> None:
    Checkpointer(settings(tmp_path)).save(1, {"w": torch.ones(1_000)})
    slot, seal = SlotFolder(tmp_path / "r0").sealed()[0]
    with slot.data.open("r+b") as file:
        file.seek(seal.used_bytes - 5)
        file.write(b"\x01")
    agree(tmp_path)
    with pytest.raises(RestoreFailed, match="its checksum does not match"):
        restored(tmp_path, 1).restore({"w": torch.zeros(1_000)})


def test_an_agent_reads_no_snapshot_to_tell_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = Checkpointer(settings(tmp_path))
    for step in (1, 2):
        checkpointer.save(step, {"w": torch.ones(2)})

    def read(slot: Slot, fd: int, seal: Seal) -> memoryview:
        raise AssertionError(f"{slot} was read")

    monkeypatch.setattr(Slot, "contents", read)
    assert [one.step for one in agree(tmp_path)] == [2, 1]


def test_a_snapshot_without_its_checksum_is_not_loaded(tmp_path: Path) -> None:
    Checkpointer(settings(tmp_path)).save(1, {"w": torch.ones(2)})
    next((tmp_path / "r0").glob("*.sum")).unlink()
    with pytest.raises(RestoreFailed, match="its checksum is not known"):
        restored(tmp_path, 1).restore({"w": torch.ones(2)})
    with pytest.raises(RestoreFailed, match=r"step 9 in the memory .* not there"):
        restored(tmp_path, 9).restore({"w": torch.ones(2)})
    assert agree(tmp_path) == (), "nor is it offered"


def test_a_checkpointer_that_outlives_its_attempt_is_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `holdfast.run`, of a script that makes it once, outside of the function."""
    environment = {"JOB": "job", "EPOCH": "1", "SLOTS": str(tmp_path / "r0"), "RESTORE": ""}
    for name, value in environment.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    one, state = Checkpointer.from_env(), {"w": torch.zeros(2)}
    assert one.restore(state) is None
    for step in (1, 2, 3):
        state["w"].fill_(step)
        assert one.save(step, state)
    monkeypatch.setenv("HOLDFAST_EPOCH", "4")
    monkeypatch.setenv("HOLDFAST_RESTORE", '{"source": "memory", "step": 2, "epoch": 1}')
    assert one.restore(state) == 2
    assert state["w"].tolist() == [2, 2]
    assert one.save(3, state)
    monkeypatch.setenv("HOLDFAST_EPOCH", "5")
    assert one.save(4, state), "one that restores by itself"
    ages = [seal.age for _, seal in SlotFolder(tmp_path / "r0").sealed()]
    assert ages == [(5, 4), (4, 3), (1, 2), (1, 1)]


def test_a_snapshot_of_another_rank_is_not_loaded(tmp_path: Path) -> None:
    two = {"world_size": 2, "topology": Topology(dp=2)}
    Checkpointer(settings(tmp_path, **two)).save(1, {"w": torch.ones(2)})
    (tmp_path / "r0").rename(tmp_path / "r1")
    state = {"w": torch.zeros(2)}
    other = restored(tmp_path, 1, rank=1, slots=tmp_path / "r1", **two)
    with pytest.raises(RestoreFailed, match="it is rank 0's, this is 1"):
        other.restore(state)
    assert not state["w"].any()


def test_what_was_saved_after_the_agreed_step_is_forgotten_by_the_restore(tmp_path: Path) -> None:
    checkpointer = Checkpointer(settings(tmp_path))
    for step in range(1, 5):
        checkpointer.save(step, {"w": torch.full((2,), float(step))})
    agree(tmp_path)
    state = {"w": torch.zeros(2)}
    assert restored(tmp_path, 2).restore(state) == 2
    assert [seal.age for _, seal in SlotFolder(tmp_path / "r0").sealed()] == [(1, 2), (1, 1)]
    assert Checkpointer(settings(tmp_path, epoch=3)).restore(state) is None
    assert SlotFolder(tmp_path / "r0").sealed() == []


def test_saves_fall_on_both_intervals_and_on_nothing_else(tmp_path: Path) -> None:
    checkpointer = Checkpointer(settings(tmp_path, memory_interval_steps=4, store_interval_steps=6))
    saved = [step for step in range(14) if checkpointer.save(step, {"w": torch.ones(1)})]
    assert saved == [4, 6, 8, 12]
    assert [step for step in range(14) if checkpointer.due(step)] == saved


def test_a_state_that_grows_gets_larger_slots(tmp_path: Path) -> None:
    checkpointer = Checkpointer(settings(tmp_path))
    for step in range(1, 7):
        checkpointer.save(step, {"w": torch.full((step * 1_000,), float(step))})
    agree(tmp_path)
    state = {"w": torch.zeros(6_000)}
    assert restored(tmp_path, 6).restore(state) == 6
    assert torch.equal(state["w"], torch.full((6_000,), 6.0))


def test_slots_that_are_all_read_make_a_save_count_as_skipped_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from contextlib import ExitStack

    checkpointer = Checkpointer(settings(tmp_path))
    for step in range(1, 5):
        checkpointer.save(step, {"w": torch.ones(2)})
    folder = SlotFolder(tmp_path / "r0")
    with ExitStack() as readers:
        for slot in folder.slots:
            readers.enter_context(slot.locked(exclusive=False))
        assert checkpointer.save(5, {"w": torch.ones(2)}) is False
    assert checkpointer.skipped == 1
    assert "snapshot of step 5 skipped (1 so far): the agent still reads every slot" in caplog.text
    memory = Memory("job", {0: str(tmp_path / "r0")}, print)
    total, in_a_row, (reason,) = memory.skipped(epoch=1)
    assert (total, in_a_row) == (1, 1)
    assert reason.startswith("step 5: the agent still reads")
    assert memory.skipped(epoch=2) == (0, 0, ())
    assert checkpointer.save(6, {"w": torch.ones(2)})
    assert memory.skipped(epoch=1)[:2] == (1, 0)


def test_outside_holdfast_nothing_is_saved_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("HOLDFAST_SLOTS", raising=False)
    checkpointer = Checkpointer.from_env()
    assert "HOLDFAST_SLOTS is not set: nothing is saved outside Holdfast" in caplog.text
    state = {"w": torch.ones(1)}
    assert checkpointer.restore(state) is None
    assert checkpointer.save(1, state) is False
    assert checkpointer.due(1) is False

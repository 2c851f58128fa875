"""A restore that is refused has changed nothing, and says all that does not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from holdfast.checkpoint import tree  # noqa: E402 - after the check that torch is there
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.load_state import MOST  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402

pytestmark = pytest.mark.torch

State = dict[str, Any]


def state_of(
    width: int = 4, kind: Callable[..., Any] = torch.optim.AdamW, dtype: Any = torch.float32
) -> State:
    """A model and its optimizer, one step old, and what a script keeps beside them."""
    model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 2)).to(dtype)
    optimizer = kind(model.parameters(), lr=0.1)
    model(torch.ones(1, 3, dtype=dtype)).sum().backward()
    optimizer.step()
    return {"first": torch.rand(2), "model": model, "optimizer": optimizer, "data": {"at": 7}}


def everything(state: State) -> str:
    """All that a state holds, as text that differs where anything does."""
    taken = tree.take_apart(state)
    return repr((taken.tree, {name: one.tolist() for name, one in taken.tensors.items()}))


def restore_into(root: Path, state: State, saved: State) -> None:
    for step in (1, 2, 3):
        Checkpointer(Settings(job="job", epoch=1, slots=root)).save(step, saved)
    Memory("job", {0: str(root)}, print).look()
    wanted = Restore(source="memory", step=2, epoch=1)
    Checkpointer(Settings(job="job", epoch=2, slots=root, restore=wanted)).restore(state)


def refused(root: Path, state: State, saved: State) -> str:
    """What the refusal lists; nothing has changed, in the process and in memory."""
    before, generator = everything(state), torch.get_rng_state()
    with pytest.raises(tree.Mismatch) as refusal:
        restore_into(root, state, saved)
    assert everything(state) == before
    assert torch.equal(torch.get_rng_state(), generator)
    assert [seal.step for _, seal in SlotFolder(root).sealed()] == [3, 2, 1]
    listed, ends, fix = str(refusal.value).partition(". Nothing was changed. Give the state the")
    assert ends
    assert "--begin-from" in fix
    return listed.partition(" of the memory of this node does not fit the script's state: ")[2]


def test_what_fits_comes_back_with_its_optimizer(tmp_path: Path) -> None:
    saved, state = state_of(), state_of()
    restore_into(tmp_path, state, saved)
    assert everything(state) == everything(saved)
    fresh = state_of()
    fresh["optimizer"] = torch.optim.AdamW(fresh["model"].parameters(), lr=0.1)
    restore_into(tmp_path / "2", fresh, saved)
    assert everything(fresh) == everything(saved)


def test_all_shapes_of_a_module_and_its_optimizer_are_listed(tmp_path: Path) -> None:
    said = refused(tmp_path, state_of(width=5), state_of(width=4))
    assert "model.0.weight: torch.float32 [5, 3] here, but the checkpoint has" in said
    for name in ("model.0.weight", "model.0.bias", "model.1.weight", "optimizer.state.0.exp_avg"):
        assert f"{name}: torch.float32" in said


def test_an_optimizer_that_has_not_stepped_is_compared_by_its_parameters(tmp_path: Path) -> None:
    state, saved = state_of(width=4), state_of(width=4)
    other = state_of(width=5)
    saved["optimizer"] = other["optimizer"]
    state["optimizer"] = torch.optim.AdamW(state["model"].parameters(), lr=0.1)
    said = refused(tmp_path, state, saved)
    assert "optimizer.state.0.exp_avg: a parameter of [4, 3] here, but the checkpoint has" in said


def test_names_and_types_of_a_module_are_compared(tmp_path: Path) -> None:
    state = state_of()
    state["model"].add_module("2", torch.nn.Linear(2, 1))
    said = refused(tmp_path, state, state_of())
    assert "model.2.weight: not in the checkpoint; model.2.bias: not in the checkpoint" in said
    saved = state_of()
    saved["model"].add_module("2", torch.nn.Linear(2, 1))
    said = refused(tmp_path / "2", state_of(), saved)
    assert "model.2.bias: in the checkpoint, but not here" in said
    said = refused(tmp_path / "3", state_of(dtype=torch.float64), state_of())
    assert "model.0.bias: torch.float64 [4] here, but the checkpoint has torch.float32 [4]" in said


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, state_of(kind=torch.optim.SGD), state_of())
    assert "optimizer.param_groups.0.momentum: not in the checkpoint" in said
    state = state_of()
    weights = [parameter for parameter in state["model"].parameters() if parameter.ndim > 1]
    state["optimizer"] = torch.optim.AdamW(weights, lr=0.1)
    said = refused(tmp_path / "2", state, state_of())
    assert (
        said == "optimizer.param_groups: groups of [2] parameters here, but the checkpoint has [4]"
    )


def test_of_very_many_mismatches_the_number_is_said(tmp_path: Path) -> None:
    saved = {"first": torch.zeros(1), **{f"w{place}": torch.zeros(2) for place in range(50)}}
    state = {"first": torch.ones(1), **{f"w{place}": torch.ones(3) for place in range(50)}}
    said = refused(tmp_path, state, saved)
    assert said.count("here, but the checkpoint has") == MOST
    assert said.endswith("; and 30 more")


class Sampler:
    """An object with a state of its own, which cannot be compared from outside."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses = refuses

    def state_dict(self) -> State:
        return {"at": 3}

    def load_state_dict(self, state: State) -> None:
        if self.refuses:
            raise ValueError(f"not {state}")


def test_where_an_object_refuses_its_state_nothing_else_has_changed(tmp_path: Path) -> None:
    saved = {**state_of(), "sampler": Sampler(refuses=False)}
    state = {**state_of(), "sampler": Sampler(refuses=True)}
    before = everything(state)
    with pytest.raises(ValueError, match=r"not \{'at': 3\}"):
        restore_into(tmp_path, state, saved)
    assert everything(state) == before


class Renaming(torch.nn.Linear):
    """A module that takes the names of its older self."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.register_load_state_dict_pre_hook(self.rename)

    @staticmethod
    def rename(_: Any, state: State, prefix: str, *__: Any) -> None:
        if f"{prefix}kernel" in state:
            state[f"{prefix}weight"] = state.pop(f"{prefix}kernel")


def test_a_module_that_renames_what_it_loads_is_let(tmp_path: Path) -> None:
    saved = {"model": {"kernel": torch.full((2, 2), 3.0), "bias": torch.zeros(2)}}
    state = {"model": Renaming()}
    restore_into(tmp_path, state, saved)
    assert torch.equal(state["model"].weight.detach(), torch.full((2, 2), 3.0))


def test_a_module_that_has_no_shapes_yet_is_let(tmp_path: Path) -> None:
    state = {"model": torch.nn.LazyLinear(2)}
    restore_into(tmp_path, state, {"model": torch.nn.Linear(3, 2)})
    assert state["model"].weight.shape == (2, 3)


# ---------------------------------------------------------------- what cannot be saved


class Owner:
    """An object whose state has the object itself."""

    def state_dict(self) -> State:
        return {"parts": [self]}


def cyclic() -> State:
    state: State = {"deep": {"list": []}}
    state["deep"]["list"].append(state["deep"])
    return state


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (cyclic(), r"^deep\.list\.0: it is within itself"),
        ({"owner": Owner()}, r"^owner\.parts\.0: it is within itself"),
        ({"a": nested(5_000)}, r"^a\.0\.0.*: it is within 200 others"),
        ({"m": {"w": torch.empty(3, device="meta")}}, r"^m\.w: a tensor of the device meta has no"),
    ],
    ids=["cycle", "object", "deep", "meta"],
)
def test_what_cannot_be_saved_is_named_by_its_path(state: State, why: str) -> None:
    with pytest.raises(tree.Unsaveable, match=why):
        tree.take_apart(state)


def test_one_thing_in_two_places_is_no_cycle() -> None:
    shared = {"lr": 0.1}
    assert tree.take_apart({"a": shared, "b": [shared, nested(150)]}).tree["a"] == shared


def test_a_tensor_without_memory_is_not_restored_into(tmp_path: Path) -> None:
    saved = {"w": torch.ones(2), "model": torch.nn.Linear(2, 1)}
    state = {"w": torch.empty(2, device="meta"), "model": torch.nn.Linear(2, 1, device="meta")}
    with pytest.raises(tree.Mismatch) as refusal:
        restore_into(tmp_path, state, saved)
    for path in ("w", "model.weight", "model.bias"):
        assert f"{path}: a tensor of the device meta here, which has no memory" in str(
            refusal.value
        )

"""NumPy's arrays and scalars, bytes and complex128 come back bit for bit."""

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from holdfast.checkpoint import tree  # noqa: E402 - after the check for torch
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.load_state import Mismatch  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.cli.main import main  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402

pytestmark = pytest.mark.torch

NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))[0]
"""With a payload that arithmetic would lose."""

VALUES: dict[str, Any] = {
    **{
        f"array-{kind}": np.arange(6).reshape(2, 3).astype(kind)
        for kind in "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 g >i4 >f8 M8[s] m8[us] S3 U2".split()
    },
    **{
        f"scalar-{kind}": np.array(1).astype(kind)[()]
        for kind in "? i1 i8 u8 f2 f4 f8 c8 c16 M8[s] S3 U2".split()
    },
    "nan": np.float64(NAN),
    "minus zero": np.float32(-0.0),
    "nothing": np.zeros((0, 3)),
    "no dimension": np.array(2.5),
    "turned": np.arange(12.0).reshape(3, 4).T,
    "every second": np.arange(10)[::2],
    "backwards": np.arange(10.0)[::-1],
    "read only": np.frombuffer(b"01234567", "i4"),
    "bytes": bytes(range(256)),
    "no bytes": b"",
    "bytearray": bytearray(b"ab"),
}


def bits(value: Any) -> tuple[object, ...]:
    if isinstance(value, torch.Tensor):
        return torch.Tensor, value.dtype, value.shape, torch.view_as_real(value).tolist()
    if isinstance(value, (bytes, bytearray)):
        return type(value), bytes(value)
    return type(value), value.dtype.str, value.shape, value.tobytes()


def restored(store: Path, saved: dict[str, Any], into: dict[str, Any]) -> dict[str, Any]:
    options = {"store_url": store.as_uri(), "store_interval_steps": 1}
    assert Checkpointer(**options).save(1, saved)
    assert Checkpointer(**options).restore(into) == 1
    return into


def test_each_kind_of_value_comes_back_bit_for_bit(tmp_path: Path) -> None:
    found = restored(tmp_path, {"nested": [VALUES], "same": VALUES}, {"same": {}})
    for again in (found["nested"][0], found["same"]):
        assert list(again) == list(VALUES)
        for name, value in VALUES.items():
            assert bits(again[name]) == bits(value), name
    assert main(["checkpoint", "verify", str(tmp_path)]) == 0


def test_complex128_comes_back_into_tensors_modules_and_optimizers(tmp_path: Path) -> None:
    def made(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(3, 2, dtype=torch.complex128)
        optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
        model(torch.rand(4, 3, dtype=torch.complex128)).abs().sum().backward()
        optimizer.step()
        own = torch.rand(2, 2, dtype=torch.complex128).conj()
        return {"model": model, "optimizer": optimizer, "own": own, "in": [own]}

    saved, into = made(1), made(2)
    restored(tmp_path, saved, into)
    assert bits(into["model"].weight.detach()) == bits(saved["model"].weight.detach())
    assert torch.equal(into["own"], saved["own"])
    assert torch.equal(into["in"][0], saved["own"])
    for one, other in zip(saved["model"].parameters(), into["model"].parameters(), strict=True):
        kept, again = saved["optimizer"].state[one], into["optimizer"].state[other]
        assert torch.equal(kept["momentum_buffer"], again["momentum_buffer"])


@pytest.mark.parametrize("count", [1, 3, 100_001])
def test_an_odd_number_of_complex128_lies_where_torch_can_read_it(
    tmp_path: Path, count: int
) -> None:
    """Eight bytes off: torch's copy of it ends the process by SIGSEGV."""
    saved = torch.rand(count, dtype=torch.complex128)
    into = {"z": torch.zeros_like(saved), "w": torch.zeros(1)}
    assert torch.equal(restored(tmp_path, {"z": saved, "w": torch.ones(1)}, into)["z"], saved)


def test_a_negated_view_comes_back_as_what_it_says(tmp_path: Path) -> None:
    saved = torch._neg_view(torch.rand(3, dtype=torch.complex128))
    into = {"z": torch.zeros(3, dtype=torch.complex128)}
    assert torch.equal(restored(tmp_path, {"z": saved}, into)["z"], saved.resolve_neg())


def test_an_array_that_was_not_there_can_be_written_to(tmp_path: Path) -> None:
    found = restored(tmp_path, {"in": [np.arange(3.0)]}, {"in": [None]})
    found["in"][0] += 1
    assert found["in"][0].tolist() == [1, 2, 3]


def test_what_is_restored_from_memory_is_no_part_of_the_snapshot(tmp_path: Path) -> None:
    """Else a script that goes on would write into what a later fault starts from."""
    known = Settings(job="job", epoch=1, slots=tmp_path / "r0")
    assert Checkpointer(known).save(1, {"in": [np.ones(3), torch.ones(3, dtype=torch.complex128)]})
    again = replace(known, restore=Restore(source="memory", step=1, epoch=1))
    for _ in range(2):
        found: dict[str, Any] = {"in": [None, None]}
        Checkpointer(again).restore(found)
        assert [one.tolist() for one in found["in"]] == [[1, 1, 1], [1, 1, 1]]
        for one in found["in"]:
            one += 1


def test_an_array_that_is_there_is_filled_in_place(tmp_path: Path) -> None:
    mine = np.zeros(3)
    into = restored(tmp_path, {"a": np.arange(3.0)}, {"a": mine})
    assert into["a"] is mine
    assert mine.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("mine", "why"),
    [
        (np.zeros(2), "a: an array <f8 [2] here, but the checkpoint has <f8 [3]"),
        (np.zeros(3, "f4"), "a: an array <f4 [3] here, but the checkpoint has <f8 [3]"),
        (torch.zeros(3), "a: a tensor here, but the checkpoint has"),
    ],
    ids=["shape", "type", "tensor"],
)
def test_what_does_not_fit_is_said_and_nothing_changes(tmp_path: Path, mine: Any, why: str) -> None:
    into = {"a": mine, "b": np.zeros(1)}
    with pytest.raises(Mismatch) as raised:
        restored(tmp_path, {"a": np.arange(3.0), "b": np.ones(1)}, into)
    assert why in str(raised.value)
    assert into["b"].tolist() == [0.0]


def test_an_array_is_expected_where_something_else_was_saved(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="a: an array here, but the checkpoint has 1"):
        restored(tmp_path, {"a": 1}, {"a": np.zeros(3)})


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}]),
        np.zeros(2, "i4,f8"),
        np.ma.masked_array([1.0]),
        object(),
        {1, 2},
    ],
    ids=["objects", "fields", "masked", "object", "set"],
)
def test_what_cannot_be_saved_is_refused_by_its_path(value: Any) -> None:
    with pytest.raises(tree.Unsaveable, match=r"^deep\.0\.x: a "):
        Checkpointer().save(1, {"deep": [{"x": value}]})


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_a_sparse_tensor_of_any_layout_is_refused_by_its_path(dtype: Any) -> None:
    whole = torch.eye(2, dtype=dtype)
    for sparse in (whole.to_sparse(), whole.to_sparse_csr()):
        with pytest.raises(tree.Unsaveable, match=r"^deep\.0\.x: a Tensor \(torch.sparse_"):
            Checkpointer().save(1, {"deep": [{"x": sparse}]})


def test_a_tensor_that_could_not_be_restored_in_place_is_refused() -> None:
    """Else it is found at the first fault, half way through a restore."""
    with pytest.raises(tree.Unsaveable, match=r"^a\.b: several .* the same memory"):
        tree.take_apart({"a": {"b": torch.ones(1).expand(5)}})
    views = {"row": torch.ones(3, 4)[1], "turned": torch.ones(3, 4).T, "one": torch.ones(1, 1)}
    assert tree.take_apart(views).tensors.keys() == views.keys()


def test_torchs_types_are_saved_as_tensors_of_their_type(tmp_path: Path) -> None:
    taken = tree.take_apart(
        {"a": np.arange(3, dtype="f4"), "b": b"xy", "c": torch.zeros(2).to(torch.complex128)}
    )
    kinds = {name: (one.dtype, tuple(one.shape)) for name, one in taken.tensors.items()}
    assert kinds == {
        "a": (torch.float32, (3,)),
        "b": (torch.uint8, (2,)),
        "c": (torch.float64, (2, 2)),
    }
    assert math.isnan(NAN)

"""Where a DTensor says that its local part lies, on ranks that are only made up."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402 - after the check for torch
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from holdfast.checkpoint import dtensors, tree  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Rank 1 of four, two by two."""
    from torch.distributed.device_mesh import init_device_mesh

    distributed.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
    yield init_device_mesh("cpu", (2, 2))
    distributed.destroy_process_group()


def test_who_has_the_same_is_known(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    cut = DTensor.from_local(torch.ones(3), mesh, [Replicate(), Shard(0)], run_check=False)
    assert dtensors.place(cut).offsets == (3,)
    assert dtensors.place(cut).global_shape == (6,)
    assert dtensors.place(cut).ranks == (1, 3)
    same = DTensor.from_local(torch.ones(3), mesh, [Replicate(), Replicate()], run_check=False)
    assert dtensors.place(same).ranks == (0, 1, 2, 3)
    own = DTensor.from_local(torch.ones(3), mesh, [Shard(0), Shard(0)], run_check=False)
    assert dtensors.place(own).ranks == ()


def test_partial_sums_are_refused_by_their_path(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Partial, Replicate

    sums = DTensor.from_local(torch.ones(3), mesh, [Partial(), Replicate()], run_check=False)
    with pytest.raises(tree.Unsaveable, match=r"^deep\.w: a DTensor of partial sums"):
        Checkpointer().save(1, {"deep": {"w": sums}})

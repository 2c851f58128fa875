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


def test_a_part_whose_pieces_do_not_adjoin_is_refused_and_one_whose_do_is_not(mesh: Any) -> None:
    """As FSDP2 cuts over tensor parallelism: strided, and again by the other axis."""
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    def placed(*placements: Any) -> Any:
        size = torch.Size([8])
        return DTensor.from_local(
            torch.ones(8 // 2 ** sum(not one.is_replicate() for one in placements)),
            mesh,
            placements,
            run_check=False,
            shape=size,
            stride=(1,),
        )

    scattered = placed(_StridedShard(0, split_factor=2), Replicate())
    with pytest.raises(dtensors.NoPlace, match="its local part is no box of the whole"):
        dtensors.place(scattered)
    adjoin = placed(_StridedShard(0, split_factor=2), Shard(0))
    assert (dtensors.place(adjoin).offsets, dtensors.place(adjoin).global_shape) == ((4,), (8,))

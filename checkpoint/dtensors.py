"""DTensors (FSDP2, torch's tensor parallelism) as the local parts and the places that they are.

Used by `tree`, `load_state` and the checkpointer. Who has a DTensor has loaded torch's package
for it; nobody else should wait for that.
"""

import sys
from math import prod
from typing import Any

import torch

from holdfast.checkpoint.layout import Shard


class NoPlace(TypeError):
    """A DTensor whose local part is no box of the whole; the message says why."""


def is_dtensor(value: object) -> bool:
    package = sys.modules.get("torch.distributed.tensor")
    return package is not None and isinstance(value, package.DTensor)


def local(value: torch.Tensor) -> torch.Tensor:
    """This rank's part, which shares its memory; of any other tensor that itself."""
    if not is_dtensor(value):
        return value
    part: torch.Tensor = value.detach().to_local()  # type: ignore[attr-defined]
    return part


def place(value: Any) -> Shard:
    """Where the local part lies, and which ranks have the same. Raises `NoPlace`."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh, placements = value.device_mesh, value.placements
    if any(placement.is_partial() for placement in placements):
        raise NoPlace("a DTensor of partial sums. Redistribute it first.")
    shape, offsets = compute_local_shape_and_global_offset(value.shape, mesh, placements)
    if tuple(shape) != tuple(local(value).shape) or _is_scattered(value):
        raise NoPlace(f"a DTensor placed as {placements}: its local part is no box of the whole.")
    coordinate = mesh.get_coordinate()
    index = tuple(
        slice(None) if placement.is_replicate() else at
        for placement, at in zip(placements, coordinate, strict=True)
    )
    ranks = tuple(sorted(mesh.mesh[index].flatten().tolist()))
    at = offsets if prod(shape) else (min(o, s) for o, s in zip(offsets, value.shape, strict=True))
    return Shard(tuple(value.shape), tuple(at), ranks=ranks if len(ranks) > 1 else ())


def _is_scattered(value: Any) -> bool:
    """Whether a dimension is cut twice, in an order in which pieces of a rank do not adjoin."""
    cut = [p.dim for p in value.placements if not p.is_replicate()]
    strided = [p.dim for p in value.placements if type(p).__name__ == "_StridedShard"]
    return any(cut.count(dim) == 1 for dim in strided)


def like(target: Any, part: torch.Tensor) -> torch.Tensor:
    """A DTensor that is placed as `target` is, with this local part."""
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        part.to(target.device),
        target.device_mesh,
        target.placements,
        run_check=False,
        shape=target.shape,
        stride=target.stride(),
    )

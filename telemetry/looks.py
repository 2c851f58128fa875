"""Whether it is numbers that a rank brings into a reduction: looked at before they are summed.

Called by the hooks, inside a rank. A sum says nothing of who was first: so the rank's own part of
it is looked at, once in each step and group, which is where gradients are with DDP, and with
scripts that reduce them by themselves. HOLDFAST_LOOKS=off leaves it out. Must not wait: what is on
a GPU is not looked at, for that would wait for it.
"""

import os
from collections.abc import Sequence
from math import isfinite
from typing import Any

Tensor = Any
"""One of torch, which is not imported here."""

REDUCTIONS = frozenset(
    "ALLREDUCE ALLREDUCE_COALESCED REDUCE REDUCE_SCATTER REDUCE_SCATTER_BASE "
    "REDUCE_SCATTER_TENSOR_COALESCED ALLTOALL ALLTOALL_BASE".split()
)
"""By torch's names. All-to-all is half of a reduce-scatter where that is done by hand."""
LEAST = 256
"""Elements from which on it may be gradients: a loss, or a flag, is fewer."""
MOST = 8192
"""Elements that are looked at, from the first on. Where a forward pass comes to no number, so do
all gradients of it; one wrong bit in one of many is mostly not seen."""


def wanted() -> bool:
    return os.environ.get("HOLDFAST_LOOKS", "") != "off"


def numbers(tensors: Sequence[Tensor]) -> bool | None:
    """Whether the first of `tensors` is numbers throughout, as far as it is looked at; None where
    it is not: few elements, integers, on a GPU, or not in one piece."""
    first = tensors[0] if tensors else None
    if first is None or first.numel() < LEAST or first.device.type != "cpu":
        return None
    if not (first.is_floating_point() and first.is_contiguous()):
        return None
    part = first.detach().view(-1)[:MOST]
    # A sum may be too large for its type: what is added up is looked at only then.
    return isfinite(part.sum().item()) or bool(part.isfinite().all())

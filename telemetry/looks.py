"""Whether a rank brings numbers into a reduction, looked at before they are summed; and norms.

Called by the hooks, inside a rank. A sum says nothing of who was first: so the rank's own part of
it is looked at, once in each step and group, which is where gradients are with DDP, and with
scripts that reduce them by themselves. HOLDFAST_LOOKS=off leaves it out. Must not wait: what is on
a GPU is not looked at, for that would wait for it.
"""

import functools
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

from holdfast.telemetry import current

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
    it is not: few elements, integers, on a GPU, not in one piece, or of a byte each, which torch
    cannot sum."""
    first = tensors[0] if tensors else None
    if first is None or first.numel() < LEAST or first.device.type != "cpu":
        return None
    if not (first.is_floating_point() and first.is_contiguous()) or first.element_size() < 2:
        return None
    part = first.detach().view(-1)[:MOST]
    # A sum may be too large for its type: what is added up is looked at only then.
    return isfinite(part.sum().item()) or bool(part.isfinite().all())


def hook_clips(module: Any) -> None:
    """`torch.nn.utils.clip_grad`: what it clips has a norm, which it returns."""
    inner = module.clip_grad_norm_

    @functools.wraps(inner)
    def clip_grad_norm_(*positional: Any, **named: Any) -> Any:
        norm = inner(*positional, **named)
        with suppress(Exception):  # a rank is never ended by its telemetry
            _clipped(norm)
        return norm

    package = sys.modules.get("torch.nn.utils")
    if getattr(package, "clip_grad_norm_", None) is inner:
        package.clip_grad_norm_ = clip_grad_norm_  # type: ignore[union-attr]
    module.clip_grad_norm_ = clip_grad_norm_


def _clipped(norm: Tensor) -> None:
    """On a GPU it would be waited for; a DTensor would begin a collective."""
    plain = type(norm).__module__ == "torch" and norm.device.type == "cpu"
    if plain and current.recorder is not None:
        current.recorder.clipped(norm.item())

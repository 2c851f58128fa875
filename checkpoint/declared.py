"""Checks of what a script declares of its tensors: `replicated=` and `shards=`. Pure.

Used by the checkpointer before anything is written: what is believed here is put together wrongly
in the store, where no checksum can tell.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.checkpoint.layout import Shard, Spec
from holdfast.kit import alike


def check_keys(replicated: Collection[str], state: Mapping[str, Any]) -> None:
    """Raise `ValueError` naming what is no top key of the state."""
    for key in replicated:
        if key not in state:
            near = alike.near(key, map(str, state), most=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Correct its name."
            raise ValueError(f"replicated: {key!r} is no top key of the state. {hint}")


def checked_shards(shards: Mapping[str, Shard], specs: Mapping[str, Spec]) -> dict[str, Shard]:
    """The shards, none of which ends beyond its whole tensor.

    An empty one may begin there, as of a rank for which nothing was left, and counts as at the end:
    torch's reader takes the furthest end for the size of the whole. Raises `ValueError` naming the
    shard that is no tensor, or does not lie in its whole one.
    """
    for name, shard in sorted(shards.items()):
        if name not in specs:
            raise ValueError(f"shards: {name!r} is no tensor of the state. Correct its name.")
        if wrong := _outside(shard, specs[name].shape):
            raise ValueError(f"shards: {name!r}: {wrong}")
    return {name: _within(shard, specs[name].shape) for name, shard in shards.items()}


def _outside(shard: Shard, shape: tuple[int, ...]) -> str:
    if not len(shard.global_shape) == len(shard.offsets) == len(shape):
        return (
            f"the tensor has {len(shape)} dimensions, its global_shape {len(shard.global_shape)} "
            f"and its offsets {len(shard.offsets)}. Give as many of each."
        )
    for axis, (whole, at, size) in enumerate(
        zip(shard.global_shape, shard.offsets, shape, strict=True)
    ):
        if at < 0 or (size and at + size > whole):
            return (
                f"dimension {axis} is to lie at {at} to {at + size} of {whole}. "
                "Correct its offsets or its global_shape."
            )
    return ""


def _within(shard: Shard, shape: tuple[int, ...]) -> Shard:
    return replace(
        shard,
        offsets=tuple(
            at if size else min(at, whole)
            for whole, at, size in zip(shard.global_shape, shard.offsets, shape, strict=True)
        ),
    )

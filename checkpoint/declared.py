"""Checks of what a script declares of its tensors: `replicated=` and `shards=`. Pure.

Used by the checkpointer before anything is written: what is believed here is put together wrongly
in the store, where no checksum can tell.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from holdfast.checkpoint.layout import Shard, Spec


def check_keys(replicated: Collection[str], state: Mapping[str, Any]) -> None:
    """Raise `ValueError` naming what is no top key of the state."""
    for key in replicated:
        if key not in state:
            near = get_close_matches(key, map(str, state), n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Correct its name."
            raise ValueError(f"replicated: {key!r} is no top key of the state. {hint}")


def check_shards(shards: Mapping[str, Shard], specs: Mapping[str, Spec]) -> None:
    """Raise `ValueError` naming the shard that is no tensor, or does not lie in its whole one."""
    for name, shard in sorted(shards.items()):
        if name not in specs:
            raise ValueError(f"shards: {name!r} is no tensor of the state. Correct its name.")
        if wrong := _outside(shard, specs[name].shape):
            raise ValueError(f"shards: {name!r}: {wrong}")


def _outside(shard: Shard, shape: tuple[int, ...]) -> str:
    if not len(shard.global_shape) == len(shard.offsets) == len(shape):
        return (
            f"the tensor has {len(shape)} dimensions, its global_shape {len(shard.global_shape)} "
            f"and its offsets {len(shard.offsets)}. Give as many of each."
        )
    for axis, (whole, at, size) in enumerate(
        zip(shard.global_shape, shard.offsets, shape, strict=True)
    ):
        if at < 0 or at + size > whole:
            return (
                f"dimension {axis} is to lie at {at} to {at + size} of {whole}. "
                "Correct its offsets or its global_shape."
            )
    return ""

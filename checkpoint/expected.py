"""How large a slot is going to be, before there is anything to save. Used by the checkpointer."""

from collections.abc import Mapping
from typing import Any

import torch

from holdfast.checkpoint import tree
from holdfast.checkpoint.dtensors import local
from holdfast.checkpoint.layout import lay_out
from holdfast.checkpoint.tensors import spec

MARGIN_BYTES = 1 << 20
"""Room in a slot that is made early for headers, random generators and scalars."""


def expected_bytes(state: Mapping[str, Any]) -> int:
    """About what one slot of this state will need, its optimizers' coming state included."""
    specs = {name: spec(name, one) for name, one in tree.take_apart(state).tensors.items()}
    growth = sum(_growth_bytes(value) for value in state.values())
    return lay_out(specs, {}).size_bytes + growth + MARGIN_BYTES


def _growth_bytes(value: object) -> int:
    """What an optimizer that has not stepped yet is going to keep for its parameters."""
    if not isinstance(value, torch.optim.Optimizer) or value.state:
        return 0
    total = 0
    for group in value.param_groups:
        parts = [local(one) for one in group["params"]]
        size = sum(one.numel() * one.element_size() for one in parts)
        total += size * (2 if "betas" in group else 1 if group.get("momentum") else 0)
    return total

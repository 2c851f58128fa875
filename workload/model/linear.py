"""Linear maps split over the tensor group: by columns, then by rows, with their two operators.

Called by `block`, `attention`, `mlp`, `vocabulary`. Source: Megatron-LM (2019), sec. 3, which
calls the operators f and g. Room for 10 (sequence parallelism: both operators become all-gather
and reduce-scatter) and 11 (overlap with the GEMM).
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from holdfast.workload.grid import Group
from holdfast.workload.model.weights import Weights


class _Enter(torch.autograd.Function):
    """f: the identity forward, an all-reduce of the gradient backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.group.all_reduce(grads[0].contiguous()), None


class _Leave(torch.autograd.Function):
    """g: an all-reduce of the partial sums forward, the identity backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group) -> torch.Tensor:
        return group.all_reduce(x.contiguous().clone())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0], None


def enter(x: torch.Tensor, group: Group) -> torch.Tensor:
    """Hand a replicated `x` to split work. Its gradient is summed over the group."""
    return x if group.size == 1 else _Enter.apply(x, group)


def leave(x: torch.Tensor, group: Group) -> torch.Tensor:
    """Sum the group's partial results `x`; every member gets the sum."""
    return x if group.size == 1 else _Leave.apply(x, group)


class ColumnLinear(nn.Module):
    """x (…, n_in) to this member's part (…, n_out / t) of x W' + c. The input is replicated."""

    def __init__(self, weights: Weights, name: str, n_in: int, n_out: int) -> None:
        super().__init__()
        std = n_in**-0.5
        self.weight = weights.normal(f"{name}.weight", (n_out, n_in), std=std, split=0)
        self.bias = weights.constant(f"{name}.bias", n_out, 0.0, split=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight, self.bias)


class RowLinear(nn.Module):
    """This member's part (…, n_in / t) to a partial sum (…, n_out); `leave` makes it whole.

    The bias is replicated, so it is added after the sum, by the caller.
    """

    def __init__(self, weights: Weights, name: str, n_in: int, n_out: int, *, layers: int) -> None:
        super().__init__()
        std = (2 * layers * n_in) ** -0.5  # 2 l residual branches add up (GPT-2)
        self.weight = weights.normal(f"{name}.weight", (n_out, n_in), std=std, split=1)
        self.bias = weights.constant(f"{name}.bias", n_out, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight)


class LayerNorm(nn.Module):
    """Layer norm over the last dimension; the same on every member of the tensor group."""

    def __init__(self, weights: Weights, name: str, width: int) -> None:
        super().__init__()
        self.weight = weights.constant(f"{name}.weight", width, 1.0)
        self.bias = weights.constant(f"{name}.bias", width, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (x.shape[-1],), self.weight, self.bias)

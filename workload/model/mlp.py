"""The feed-forward part: h to 4 h to h, columns then rows split over the tensor group.

Called by `block`. Room for 23 (fused bias and GeLU).
"""

import torch
from torch import nn
from torch.nn import functional

from holdfast.workload.model.linear import ColumnLinear, RowLinear
from holdfast.workload.model.weights import Weights
from holdfast.workload.settings import Shape


class Mlp(nn.Module):
    """x (b, s, h), replicated, to a partial sum (b, s, h) over this member's 4h/t columns."""

    def __init__(self, weights: Weights, name: str, shape: Shape) -> None:
        super().__init__()
        h = shape.hidden
        self.wide = ColumnLinear(weights, f"{name}.wide", h, 4 * h)
        self.out = RowLinear(weights, f"{name}.out", 4 * h, h, layers=shape.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(functional.gelu(self.wide(x)))  # type: ignore[no-any-return]

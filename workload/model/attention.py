"""Causal self-attention, whole heads split over the tensor group (a % t == 0).

Called by `block`. Room for 2 (sliding window) and 23 (fused attention).
"""

import torch
from torch import nn
from torch.nn import functional

from holdfast.workload.model.linear import ColumnLinear, RowLinear
from holdfast.workload.model.weights import Weights
from holdfast.workload.settings import Shape


class Attention(nn.Module):
    """x (b, s, h), replicated, to a partial sum (b, s, h) over this member's a/t heads.

    The rows of the query-key-value weight lie head by head (query, key, value of head 0, then of
    head 1, …), so that an equal split of its rows is a split of whole heads.
    """

    def __init__(self, weights: Weights, name: str, shape: Shape) -> None:
        super().__init__()
        h = shape.hidden
        self.head_width = h // shape.heads
        self.qkv = ColumnLinear(weights, f"{name}.qkv", h, 3 * h)
        self.out = RowLinear(weights, f"{name}.out", h, h, layers=shape.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        heads = self.qkv(x).view(b, s, -1, 3, self.head_width).permute(3, 0, 2, 1, 4)
        query, key, value = heads.unbind(0)  # each (b, a/t, s, h/a)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(b, s, -1))  # type: ignore[no-any-return]

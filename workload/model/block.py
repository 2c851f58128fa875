"""The transformer block: parallel (one norm, one sum) or serial (two of each).

Called by `stage`. Room for 22 (activation recomputation wraps a block).
"""

import torch
from torch import nn

from holdfast.workload.grid import Group
from holdfast.workload.model.attention import Attention
from holdfast.workload.model.linear import LayerNorm, enter, leave
from holdfast.workload.model.mlp import Mlp
from holdfast.workload.model.weights import Weights
from holdfast.workload.settings import Shape


class ParallelBlock(nn.Module):
    """y = x + MLP(LN(x)) + Attn(LN(x)) with one LN (MegaScale, sec. 3.1): x and y (b, s, h).

    Both partial sums are added before the one all-reduce: 1 + 1 collectives, not 2 + 2.
    """

    def __init__(self, weights: Weights, name: str, shape: Shape, group: Group) -> None:
        super().__init__()
        self.group = group
        self.norm = LayerNorm(weights, f"{name}.norm", shape.hidden)
        self.attention = Attention(weights, f"{name}.attention", shape)
        self.mlp = Mlp(weights, f"{name}.mlp", shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = enter(self.norm(x), self.group)
        both = leave(self.attention(normed) + self.mlp(normed), self.group)
        return x + both + (self.attention.out.bias + self.mlp.out.bias)


class SerialBlock(nn.Module):
    """y = x + Attn(LN(x)); z = y + MLP(LN'(y)), as in GPT-2: 2 + 2 collectives."""

    def __init__(self, weights: Weights, name: str, shape: Shape, group: Group) -> None:
        super().__init__()
        self.group = group
        self.norm = LayerNorm(weights, f"{name}.norm", shape.hidden)
        self.attention = Attention(weights, f"{name}.attention", shape)
        self.norm_mlp = LayerNorm(weights, f"{name}.norm_mlp", shape.hidden)
        self.mlp = Mlp(weights, f"{name}.mlp", shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = leave(self.attention(enter(self.norm(x), self.group)), self.group)
        y = x + seen + self.attention.out.bias
        wide = leave(self.mlp(enter(self.norm_mlp(y), self.group)), self.group)
        return y + wide + self.mlp.out.bias


BLOCKS: dict[str, type[ParallelBlock] | type[SerialBlock]] = {
    "parallel": ParallelBlock,
    "serial": SerialBlock,
}

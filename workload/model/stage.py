"""The part of the model that one pipeline stage holds: l/p blocks, and the ends where they are.

Called by `train`, run by `pipeline`.
"""

import torch
from torch import nn

from holdfast.workload.grid import Grid
from holdfast.workload.model.block import BLOCKS
from holdfast.workload.model.vocabulary import Embedding, Head
from holdfast.workload.model.weights import Weights
from holdfast.workload.settings import Shape


class Stage(nn.Module):
    """Blocks stage * l/p to (stage + 1) * l/p - 1, each (b, s, h) to (b, s, h)."""

    def __init__(self, weights: Weights, shape: Shape, grid: Grid) -> None:
        super().__init__()
        group = grid.tensor
        self.embedding = Embedding(weights, shape, group) if grid.is_first_stage else None
        count = shape.layers // grid.stages
        first = grid.stage * count
        self.blocks = nn.ModuleList(
            BLOCKS[shape.block](weights, f"block.{layer}", shape, group)
            for layer in range(first, first + count)
        )
        self.head = Head(weights, shape, group) if grid.is_last_stage else None

    def forward(self, x: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Tokens (b, s) or activations (b, s, h) in; activations, or the mean loss, out."""
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(x, targets)

"""Embedding and cross-entropy with the vocabulary split over the tensor group (V padded to t).

Called by `stage`. Source: Megatron-LM (2019), sec. 3: what is reduced are three scalars a token
(the largest logit, the sum of exponentials, the logit of the target), never b s V logits.
The two ends of the model are not tied: each lives on its own stage, and no gradient of a shared
weight has to travel between them.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from holdfast.workload.grid import Group
from holdfast.workload.model.linear import LayerNorm, enter, leave
from holdfast.workload.model.weights import Weights
from holdfast.workload.settings import VOCABULARY, Shape


def padded(group_size: int) -> int:
    """V rounded up to a multiple of the tensor-parallel size."""
    return -(-VOCABULARY // group_size) * group_size


class Embedding(nn.Module):
    """Tokens (b, s), integers below V, to (b, s, h): token plus position."""

    def __init__(self, weights: Weights, shape: Shape, group: Group) -> None:
        super().__init__()
        self.group = group
        rows = padded(group.size)
        self.token = weights.normal(
            "embedding.token", (rows, shape.hidden), std=0.5, split=0, rows=VOCABULARY
        )
        self.position = weights.normal("embedding.position", (shape.seq, shape.hidden), std=0.1)
        self.first = group.index * (rows // group.size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        local = tokens - self.first
        elsewhere = (local < 0) | (local >= self.token.shape[0])
        found = functional.embedding(local.masked_fill(elsewhere, 0), self.token)
        mine = found.masked_fill(elsewhere.unsqueeze(-1), 0.0)
        return leave(mine, self.group) + self.position


class Head(nn.Module):
    """x (b, s, h) and targets (b, s) to the mean loss in nats a token."""

    def __init__(self, weights: Weights, shape: Shape, group: Group) -> None:
        super().__init__()
        self.group = group
        rows = padded(group.size)
        self.norm = LayerNorm(weights, "head.norm", shape.hidden)
        self.weight = weights.normal(
            "head.weight",
            (rows, shape.hidden),
            std=0.1 * shape.hidden**-0.5,  # the first loss is close to ln V
            split=0,
            rows=VOCABULARY,
        )

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = functional.linear(enter(self.norm(x), self.group), self.weight)
        return cross_entropy(logits, targets, self.group)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, group: Group) -> torch.Tensor:
    """Mean over tokens of log(sum of exp) minus the target's logit.

    `logits` (b, s, V_padded/t) is this member's part, `targets` (b, s) are global token numbers.
    """
    return _CrossEntropy.apply(logits, targets, group)  # type: ignore[no-any-return]


class _CrossEntropy(torch.autograd.Function):
    """Gradient: (softmax - one at the target) / tokens, which needs no communication."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, group: Group
    ) -> torch.Tensor:
        width = logits.shape[-1]
        first = group.index * width
        real = max(0, min(width, VOCABULARY - first))  # columns that are not padding
        shifted = logits.clone()
        shifted[..., real:] = float("-inf")
        shifted -= group.all_reduce(shifted.amax(-1), dist.ReduceOp.MAX).unsqueeze(-1)
        local = targets - first
        elsewhere = (local < 0) | (local >= width)
        local = local.masked_fill(elsewhere, 0).unsqueeze(-1)
        target = shifted.gather(-1, local).squeeze(-1).masked_fill(elsewhere, 0.0)
        exponentials = shifted.exp_()
        target, total = group.all_reduce(torch.stack((target, exponentials.sum(-1)))).unbind(0)
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), local, elsewhere)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        softmax, local, elsewhere = ctx.saved_tensors
        here = (~elsewhere).to(softmax.dtype).unsqueeze(-1)
        difference = softmax.scatter_add(-1, local, -here)
        return difference * (grads[0] / elsewhere.numel()), None, None

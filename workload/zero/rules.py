"""Update rules on flat shards: SGD and Adam.

Called by `zero.step`. `torch.optim` is not used: the shards are ours, and its first optimizer
imports `torch._dynamo`, which takes seconds at each start of a rank. Room for 3 (LAMB).
"""

from typing import Protocol

import torch


class Rule(Protocol):
    """Changes a shard of parameters in place, given the same shard of gradients."""

    state: dict[str, torch.Tensor]

    def update(
        self, values: torch.Tensor, gradients: torch.Tensor, *, lr: float, step: int
    ) -> None:
        """`step` counts from 1."""
        ...


class Sgd:
    """values -= lr * gradients."""

    def __init__(self, like: torch.Tensor) -> None:
        self.state: dict[str, torch.Tensor] = {}

    def update(
        self, values: torch.Tensor, gradients: torch.Tensor, *, lr: float, step: int
    ) -> None:
        values.sub_(gradients, alpha=lr)


class Adam:
    """Adam with bias correction (Kingma and Ba, 2015, algorithm 1), without weight decay."""

    BETA1, BETA2, EPSILON = 0.9, 0.95, 1e-8
    """Epsilon as in the paper; the betas as GPT-3 was trained (Brown et al., 2020, app. B)."""

    def __init__(self, like: torch.Tensor) -> None:
        self.state = {"mean": torch.zeros_like(like), "square": torch.zeros_like(like)}

    def update(
        self, values: torch.Tensor, gradients: torch.Tensor, *, lr: float, step: int
    ) -> None:
        mean, square = self.state["mean"], self.state["square"]
        mean.lerp_(gradients, 1 - self.BETA1)
        square.mul_(self.BETA2).addcmul_(gradients, gradients, value=1 - self.BETA2)
        scale = (square / (1 - self.BETA2**step)).sqrt_().add_(self.EPSILON)
        values.addcdiv_(mean, scale, value=-lr / (1 - self.BETA1**step))


RULES: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam}

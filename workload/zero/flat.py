"""All parameters of a rank in one flat buffer, all gradients in another.

Called by `zero.step`. Parameters that the tensor group splits come first and replicated ones last,
so that a global norm counts each element of the model once. Room for 14 and 15 (buckets).
"""

from dataclasses import dataclass

import torch
from torch import nn

from holdfast.workload.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Span:
    """Where a parameter lies in the flat buffer: elements `start` to `end` - 1."""

    name: str
    shape: tuple[int, ...]
    start: int
    end: int


class Flat:
    """Flat buffers, padded with zeros to a multiple of the data-parallel size d.

    The parameters become views of `values`, their gradients of `gradients`; autograd adds to a
    gradient that is there in place, so micro-batches accumulate without a copy.
    """

    def __init__(self, weights: Weights, *, pieces: int) -> None:
        slices = weights.slices
        names = sorted(slices, key=lambda name: (slices[name].split is None, name))
        self.spans: list[Span] = []
        end = 0
        self.replicated_from = 0
        for name in names:
            parameter = weights.parameters[name]
            shape, start, end = tuple(parameter.shape), end, end + parameter.numel()
            self.spans.append(Span(name=name, shape=shape, start=start, end=end))
            if slices[name].split is not None:
                self.replicated_from = end
        self.piece = -(-end // pieces)
        like = weights.parameters[names[0]]
        self.values = torch.zeros(self.piece * pieces, dtype=like.dtype, device=like.device)
        self.gradients = torch.zeros_like(self.values)
        for span in self.spans:
            self._adopt(weights.parameters[span.name], span)

    def _adopt(self, parameter: nn.Parameter, span: Span) -> None:
        view = self.values[span.start : span.end].view(span.shape)
        view.copy_(parameter.detach())
        parameter.data = view
        parameter.grad = self.gradients[span.start : span.end].view(span.shape)

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of a buffer that is laid out like `values`, by parameter name."""
        return {span.name: flat[span.start : span.end].view(span.shape) for span in self.spans}

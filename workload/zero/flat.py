"""All parameters of a rank in one flat buffer, all gradients in another.

Called by `zero.step`. Parameters that the tensor group splits come first and replicated ones last,
so that a global norm counts each element of the model once. Of each the dimension that is split
goes first, so that what lies here of it is a range of the whole, on every layout. Room for 14 and
15 (buckets).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from holdfast.workload.model.weights import Slice, Weights


@dataclass(frozen=True, kw_only=True)
class Span:
    """Where a parameter lies in the flat buffer: elements `start` to `end` - 1."""

    name: str
    shape: tuple[int, ...]
    start: int
    end: int
    split: int = 0  # the dimension that is first in the buffer

    def view(self, flat: torch.Tensor) -> torch.Tensor:
        """The parameter, in a buffer that is laid out so."""
        first = (self.shape[self.split], *self.shape[: self.split], *self.shape[self.split + 1 :])
        return flat[self.start : self.end].view(first).movedim(0, self.split)


@dataclass(frozen=True, kw_only=True)
class Range:
    """Elements `start` to `end` - 1 of a piece of the buffer: from `offset` on of a whole parameter
    of `whole` elements, in the order of the buffer.

    `replicated`: the other members of the tensor group have the same.
    """

    name: str
    start: int
    end: int
    offset: int
    whole: int
    replicated: bool


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
            split = slices[name].split
            self.spans.append(Span(name=name, shape=shape, start=start, end=end, split=split or 0))
            if split is not None:
                self.replicated_from = end
        self._slices = slices
        self.piece = -(-end // pieces)
        like = weights.parameters[names[0]]
        self.values = torch.zeros(self.piece * pieces, dtype=like.dtype, device=like.device)
        self.gradients = torch.zeros_like(self.values)
        for span in self.spans:
            self._adopt(weights.parameters[span.name], span)

    def _adopt(self, parameter: nn.Parameter, span: Span) -> None:
        view = span.view(self.values)
        view.copy_(parameter.detach())
        parameter.data = view
        parameter.grad = span.view(self.gradients)

    def named(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of a buffer that is laid out like `values`, by parameter name."""
        return {span.name: span.view(flat) for span in self.spans}

    def ranges(self, start: int) -> Iterator[Range]:
        """What of whole parameters the piece that begins at `start` has, padding left out."""
        for span in self.spans:
            found = _range(span, self._slices[span.name], start, start + self.piece)
            if found.start < found.end:
                yield found


def _range(span: Span, of: Slice, start: int, end: int) -> Range:
    row = (span.end - span.start) // span.shape[span.split]
    real = span.start + of.rows * row
    first, last = max(start, span.start), min(end, real)
    return Range(
        name=span.name,
        start=first - start,
        end=last - start,
        offset=of.start * row + first - span.start,
        whole=of.shape[span.split] * row,
        replicated=of.split is None,
    )

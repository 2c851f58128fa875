"""Parameters by global name: their first values, and which slice of them this rank holds.

Called by the modules of the model. The first value of an element depends on the seed, the global
name and the global index only, never on the layout, so that all layouts start from one model.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A parameter in the whole model, and the part of it that is here.

    `split` is the dimension that the tensor group shares out, None where every member has it all.
    `shape` is the whole shape, without the padding that makes it divide; ours begins at `start` on
    `split` (else on the first dimension) and has `rows` there that are no padding.
    """

    name: str
    shape: tuple[int, ...]
    rows: int
    split: int | None = None
    start: int = 0


class Weights:
    """Makes the parameters of one rank and remembers their slices, in the order they were made."""

    def __init__(
        self, *, seed: int, tensor_index: int, tensor_size: int, options: dict[str, object]
    ) -> None:
        self._seed, self._index, self._size = seed, tensor_index, tensor_size
        self._options = options  # dtype and device
        self.slices: dict[str, Slice] = {}
        self.parameters: dict[str, nn.Parameter] = {}

    def normal(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        std: float,
        split: int | None = None,
        rows: int = 0,
    ) -> nn.Parameter:
        """Normal values of deviation `std`; rows from `rows` up (0: none) are padding, and zero."""
        digest = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        whole = torch.zeros(shape, dtype=torch.float64)
        filled = (rows or shape[0], *shape[1:])
        whole[: filled[0]] = torch.randn(filled, generator=generator, dtype=torch.float64) * std
        return self._keep(name, whole, split, filled)

    def constant(
        self, name: str, length: int, value: float, *, split: int | None = None
    ) -> nn.Parameter:
        """A vector of `value`: biases and the scales of layer norms."""
        whole = torch.full((length,), value, dtype=torch.float64)
        return self._keep(name, whole, split, (length,))

    def _keep(
        self, name: str, whole: torch.Tensor, split: int | None, filled: tuple[int, ...]
    ) -> nn.Parameter:
        mine, start = whole, 0
        if split is not None:
            length = whole.shape[split] // self._size
            start = self._index * length
            mine = whole.narrow(split, start, length)
        parameter = nn.Parameter(mine.to(**self._options).contiguous())  # type: ignore[call-overload]
        rows = max(0, min(mine.shape[split or 0], filled[split or 0] - start))
        self.slices[name] = Slice(name=name, shape=filled, rows=rows, split=split, start=start)
        self.parameters[name] = parameter
        return parameter

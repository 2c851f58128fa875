"""Finding out whether tensors were written to. Used by `overlap` in ranks only.

Torch counts what its own operations write. What goes by `.data`, NumPy or a fused kernel it does
not count: one element in every 16 KiB is compared, too, so that a write to a whole tensor, or to
16 KiB of one in a row, shows.
"""

from collections.abc import Iterable, Mapping

import torch

SAMPLED_BYTES = 16 << 10
"""One element of each so many bytes: 2 to 4 ms a GiB on two busy cores, where a copy took 150."""

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Compared as bits: NaN is not equal to itself."""


class Marks:
    """How these tensors, all contiguous, were when it was made."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors
        self._versions = {name: tensor._version for name, tensor in tensors.items()}
        self._samples = _samples(tensors)

    def land(self) -> None:
        """Have the samples in the host's memory; on the stream that is current."""
        self._samples = {kind: sample.cpu() for kind, sample in self._samples.items()}

    def written(self, copies: Mapping[str, torch.Tensor]) -> str | None:
        """A tensor that was written to since, or whose copy is not what it was then."""
        for name, version in self._versions.items():
            if self._tensors[name]._version != version:
                return name
        found = _samples(copies)
        if all(torch.equal(found[kind], self._samples[kind]) for kind in found):
            return None
        return next(
            name
            for name in copies
            if not torch.equal(*(_part(of, copies, name) for of in (found, self._samples)))
        )


def differing(pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]]) -> str | None:
    """The first tensor that is not bit for bit the one beside it."""
    return next(
        (
            name
            for name, (one, other) in pairs.items()
            if not torch.equal(_bits(one).to(other.device), _bits(other))
        ),
        None,
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(_BITS[tensor.element_size()])


Samples = dict[int, torch.Tensor]
"""By element size, those of all tensors in order."""


def _samples(tensors: Mapping[str, torch.Tensor]) -> Samples:
    parts: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors.values():
        parts.setdefault(tensor.element_size(), []).append(_sampled(tensor))
    return {size: torch.cat(each) for size, each in parts.items()}


def _sampled(tensor: torch.Tensor) -> torch.Tensor:
    return _bits(tensor).reshape(-1)[:: SAMPLED_BYTES // tensor.element_size()]


def _part(samples: Samples, tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """That tensor's of all samples."""
    size = tensors[name].element_size()
    alike: Iterable[str] = [one for one in tensors if tensors[one].element_size() == size]
    lengths = [_sampled(tensors[one]).numel() for one in alike]
    return torch.split(samples[size], lengths)[list(alike).index(name)]

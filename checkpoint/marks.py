"""Finding out whether tensors were written to. Used by `overlap` in ranks only.

Torch counts what its own operations write. What goes by `.data`, NumPy or a fused kernel it does
not count: one element in every 16 KiB is compared, too, so that a write to a whole tensor, or to
16 KiB of one in a row, shows.
"""

from collections.abc import Mapping

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
        self._alike = _alike(tensors)
        self._samples = self._sampled(tensors)

    def land(self) -> None:
        """Have the samples in the host's memory; on the stream that is current."""
        self._samples = [sample.cpu() for sample in self._samples]

    def written(self, copies: Mapping[str, torch.Tensor]) -> str | None:
        """A tensor that was written to since, or whose copy is not what it was then."""
        for name, version in self._versions.items():
            if self._tensors[name]._version != version:
                return name
        found = self._sampled(copies)
        for names, now, then in zip(self._alike, found, self._samples, strict=True):
            if not torch.equal(now, then):
                lengths = [_sample(copies[name]).numel() for name in names]
                pairs = zip(torch.split(now, lengths), torch.split(then, lengths), strict=True)
                return next(
                    name for name, pair in zip(names, pairs, strict=True) if not torch.equal(*pair)
                )
        return None

    def _sampled(self, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return [torch.cat([_sample(tensors[name]) for name in names]) for names in self._alike]


def _alike(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Names of those whose samples can lie in one tensor: on one device, of one element size. What
    Adam counts in is on the CPU, whatever it keeps beside it."""
    alike: dict[tuple[int, torch.device], list[str]] = {}
    for name, tensor in tensors.items():
        alike.setdefault((tensor.element_size(), tensor.device), []).append(name)
    return [*alike.values()]


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


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    return _bits(tensor).reshape(-1)[:: SAMPLED_BYTES // tensor.element_size()]

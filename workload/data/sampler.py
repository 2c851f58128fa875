"""Which sample stands at which position: a new permutation of all samples for each pass.

Called by `train`. The position (samples drawn so far, over the whole job) is all there is to keep.
"""

import torch


class Sampler:
    """Sample i is bytes i s to (i+1) s of the text (the last one is a target only).

    Every sample is drawn once in each pass over the text, whatever the layout.
    """

    def __init__(self, text: torch.Tensor, *, seq: int, seed: int, device: torch.device) -> None:
        self._text, self._seq, self._seed, self._device = text, seq, seed, device
        self.samples = (len(text) - 1) // seq
        self._pass = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def sample_at(self, position: int) -> int:
        """The sample drawn at `position`, a number from 0 that counts over all passes."""
        number, place = divmod(position, self.samples)
        if number != self._pass:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + number)
            self._order = torch.randperm(self.samples, generator=generator)
            self._pass = number
        return int(self._order[place])

    def load(self, samples: list[int]) -> torch.Tensor:
        """The samples' bytes and the one after each, int64 (b, s + 1)."""
        windows = [self._text[i * self._seq : (i + 1) * self._seq + 1] for i in samples]
        return torch.stack(windows).to(self._device, torch.int64)

"""One step's samples for one replica, as the pipeline reads them.

Called by `train`.
"""

import torch

from holdfast.protocol.topology import Topology
from holdfast.workload.data.sampler import Sampler
from holdfast.workload.settings import Shape


class StepBatch:
    """Positions `position` to `position` + B - 1 are the step's; each replica takes B/d in a row.

    Micro-batch k is b of them: `tokens(k)` and `targets(k)`, int64 (b, s), one byte apart.
    """

    def __init__(
        self, sampler: Sampler, *, position: int, replica: int, topology: Topology, shape: Shape
    ) -> None:
        share = shape.global_batch // topology.dp
        first = position + replica * share
        self.samples = [sampler.sample_at(p) for p in range(first, first + share)]
        self._windows = sampler.load(self.samples)
        self._micro_batch = shape.micro_batch

    def tokens(self, k: int) -> torch.Tensor:
        return self._micro(k)[:, :-1]

    def targets(self, k: int) -> torch.Tensor:
        return self._micro(k)[:, 1:]

    def _micro(self, k: int) -> torch.Tensor:
        return self._windows[k * self._micro_batch : (k + 1) * self._micro_batch]

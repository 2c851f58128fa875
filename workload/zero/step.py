"""One optimizer step with gradients and state sharded over the d replicas.

Called by `train`. A step moves 2 P (d-1)/d elements a rank: a reduce-scatter of the gradients, an
all-gather of the parameters (Rajbhandari et al., 2020, sec. 7.1). Room for 12, 16, 17.
"""

import torch

from holdfast.workload.grid import Grid
from holdfast.workload.zero.flat import Flat
from holdfast.workload.zero.rules import Rule


class Zero:
    """Owns element r P/d to (r+1) P/d - 1 of the flat buffers, r being the replica's number.

    `ranges`: what that is of whole parameters.
    """

    def __init__(self, flat: Flat, grid: Grid, rule: type[Rule]) -> None:
        self.flat, self._grid = flat, grid
        self.start = grid.data.index * flat.piece
        self.mine = flat.values[self.start : self.start + flat.piece]
        self.rule = rule(self.mine)  # type: ignore[call-arg]
        self.shard = torch.zeros_like(self.mine)
        self.ranges = tuple(flat.ranges(self.start))

    def reduce(self) -> torch.Tensor:
        """Average the gradients into `shard`; the sum of its squares, float64, a scalar.

        What is replicated over the tensor group is counted by its first member alone, so that
        the sum over the world is the squared norm of the whole model's gradient.
        """
        self.shard = self._grid.data.reduce_scatter(self.flat.gradients) / self._grid.data.size
        counted = self.shard
        if self._grid.tensor.index:
            counted = counted[: max(0, self.flat.replicated_from - self.start)]
        return counted.double().square().sum()

    def update(self, *, lr: float, step: int) -> None:
        """Change this replica's shard of the parameters, then gather all shards."""
        self.rule.update(self.mine, self.shard, lr=lr, step=step)
        self._grid.data.all_gather(self.flat.values, self.mine)
        self.flat.gradients.zero_()

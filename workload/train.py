"""One training step, from samples to new parameters; and the state that a resumed run needs.

Called by `main`. The same numbers come out on every layout, up to rounding.
"""

from dataclasses import dataclass
from typing import Any

import torch

from holdfast import telemetry
from holdfast.checkpoint import Shard
from holdfast.protocol.topology import Axis
from holdfast.workload.data.batch import StepBatch
from holdfast.workload.data.sampler import Sampler
from holdfast.workload.grid import Grid
from holdfast.workload.model.stage import Stage
from holdfast.workload.model.weights import Slice, Weights
from holdfast.workload.pipeline.run import Pipeline
from holdfast.workload.pipeline.schedule import one_forward_one_backward
from holdfast.workload.settings import Settings
from holdfast.workload.zero.flat import Flat, Range
from holdfast.workload.zero.rules import RULES
from holdfast.workload.zero.step import Zero

DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a step came to: `loss` in nats a token and `grad_norm`, the same on every rank."""

    step: int
    loss: float
    grad_norm: float
    samples: list[int]  # those of this rank's replica


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where the run stands: steps done, and the position of the next sample."""

    step: int = 0
    position: int = 0


class Trainer:
    """This rank's part of the model, its optimizer shard, and its place in the data."""

    def __init__(self, settings: Settings, grid: Grid, text: torch.Tensor) -> None:
        self.settings, self.grid = settings, grid
        self.progress = Progress()
        shape, dtype = settings.shape, DTYPES[settings.dtype]
        torch.manual_seed(settings.seed)
        self.weights = Weights(
            seed=settings.seed,
            tensor_index=grid.tensor.index,
            tensor_size=grid.tensor.size,
            options={"dtype": dtype, "device": grid.device},
        )
        stage = Stage(self.weights, shape, grid)
        self.zero = Zero(Flat(self.weights, pieces=grid.data.size), grid, RULES[settings.optimizer])
        edge = (shape.micro_batch, shape.seq, shape.hidden)
        self.pipeline = Pipeline(stage, grid, edge_shape=edge, dtype=dtype)
        self._sampler = Sampler(text, seq=shape.seq, seed=settings.seed, device=grid.device)

    def step(self) -> Outcome:
        """Forward, backward, reduce, update: one step of the whole job."""
        shape, grid, number = self.settings.shape, self.grid, self.progress.step + 1
        with telemetry.phase("data"):
            batch = self._batch()
        count = shape.micro_batches(grid.data.size)
        schedule = one_forward_one_backward(grid.stage, grid.stages, count)
        loss = self.pipeline.step(batch, schedule, count)
        with telemetry.phase("optimizer"):
            square = self.zero.reduce()
            mean_loss, grad_norm = self._agree(loss, square)
            self.zero.update(lr=self.rate(number), step=number)
        position = self.progress.position + shape.global_batch
        self.progress = Progress(step=number, position=position)
        return Outcome(step=number, loss=mean_loss, grad_norm=grad_norm, samples=batch.samples)

    def rate(self, step: int) -> float:
        """The learning rate's schedule: rises linearly over the warm-up, then stands."""
        return self.settings.lr * min(1.0, step / max(1, self.settings.warmup_steps))

    def _batch(self) -> StepBatch:
        return StepBatch(
            self._sampler,
            position=self.progress.position,
            replica=self.grid.data.index,
            topology=self.settings.topology,
            shape=self.settings.shape,
        )

    def _agree(self, loss: torch.Tensor, square: torch.Tensor) -> tuple[float, float]:
        """Mean loss over the global batch and norm of the whole gradient, from one all-reduce."""
        counts = self.grid.is_last_stage and self.grid.tensor.index == 0
        share = loss / self.grid.data.size if counts else torch.zeros_like(loss)
        total = self.grid.world.all_reduce(torch.stack((share, square)))
        return float(total[0]), float(total[1].sqrt())

    def state(self) -> dict[str, Any]:
        """All that the next step depends on: tensors (live) and JSON leaves.

        The checkpoint adds the random generators' states by itself.
        """
        zero, slices = self.zero, self.weights.slices
        return {
            "model": {
                name: view.narrow(slices[name].split or 0, 0, slices[name].rows)
                for name, view in zero.flat.named(zero.flat.values).items()
            },
            "optimizer": {
                key: {one.name: kept[one.start : one.end] for one in zero.ranges}
                for key, kept in zero.rule.state.items()
            },
            "shape": self.settings.shape.model,
            "scheduler": {"step": self.progress.step},
            "data": {"position": self.progress.position},
        }

    def shards(self) -> dict[str, Shard]:
        """Where the tensors of `state` lie in those of the whole model, by their path in it."""
        return {f"model.{name}": _shard(one) for name, one in self.weights.slices.items()} | {
            f"optimizer.{key}.{one.name}": _line(one)
            for key in self.zero.rule.state
            for one in self.zero.ranges
        }


def _shard(one: Slice) -> Shard:
    """Replicated over the data-parallel group, and over the tensor group where it is not split."""
    offsets = [0] * len(one.shape)
    if one.split is None:
        return Shard(one.shape, tuple(offsets), (Axis.DP, Axis.TP))
    offsets[one.split] = one.start
    return Shard(one.shape, tuple(offsets), (Axis.DP,))


def _line(one: Range) -> Shard:
    """What is kept for a parameter is a line of its elements, of which each replica has a range."""
    return Shard((one.whole,), (one.offset,), (Axis.TP,) if one.replicated else ())

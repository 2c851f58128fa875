"""Runs a stage's schedule: receives, computes, sends, and keeps a log of what it did when.

Called by `train` once a step. Sends are started and not waited for until the step ends, so only a
receive can hold a forward or backward up. Room for 6 (decoupled receives) and 7 (scatter/gather).
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist

from holdfast import telemetry
from holdfast.workload.grid import Grid
from holdfast.workload.pipeline.schedule import Kind, Work


class Batch(Protocol):
    """What the ends of the pipeline read: micro-batch k's tokens and targets, each (b, s)."""

    def tokens(self, k: int) -> torch.Tensor: ...
    def targets(self, k: int) -> torch.Tensor: ...


class Done(NamedTuple):
    """An entry of the event log; times are monotonic seconds of this rank."""

    work: Work
    start_s: float
    end_s: float


class _Seed(torch.autograd.Function):
    """A scalar whose gradient with respect to `out` is `gradient`.

    `torch.autograd.backward(out, gradient)` says the same, but imports sympy (torch 2.15), two
    seconds at each start of a rank.
    """

    @staticmethod
    def forward(ctx: Any, out: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        ctx.gradient = gradient
        return out.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.gradient, None


class Pipeline:
    """One stage at work. `log` holds the last step's events."""

    def __init__(
        self, stage: torch.nn.Module, grid: Grid, *, edge_shape: Sequence[int], dtype: torch.dtype
    ) -> None:
        self._stage, self._grid = stage, grid
        self._edge_shape, self._dtype = tuple(edge_shape), dtype
        self._in_flight: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.log: list[Done] = []

    def step(self, batch: Batch, schedule: Iterable[Work], micro_batches: int) -> torch.Tensor:
        """Add the gradients of `micro_batches` to the parameters; the mean loss, a scalar.

        The loss is 0 on all stages but the last.
        """
        self.log = []
        loss = torch.zeros((), dtype=torch.float64, device=self._grid.device)
        for work in schedule:
            start_s = time.monotonic()
            if work.kind is Kind.FORWARD:
                loss += self._forward(work.micro_batch, batch) / micro_batches
            else:
                self._backward(work.micro_batch, 1 / micro_batches)
            self.log.append(Done(work, start_s, time.monotonic()))
        for pending, _ in self._sending:
            pending.wait()
        self._sending.clear()
        return loss

    def _forward(self, k: int, batch: Batch) -> torch.Tensor | float:
        grid = self._grid
        source = batch.tokens(k) if grid.is_first_stage else self._receive_activation()
        targets = batch.targets(k) if grid.is_last_stage else None
        with telemetry.phase("forward"):
            out = self._stage(source, targets)
        self._in_flight[k] = (source, out)
        if grid.is_last_stage:
            return out.detach()  # type: ignore[no-any-return]
        self._send(out.detach(), forward=True)
        return 0.0

    def _backward(self, k: int, scale: float) -> None:
        source, out = self._in_flight.pop(k)
        if self._grid.is_last_stage:
            gradient = torch.full_like(out, scale)
        else:
            gradient = self._grid.down.receive(self._edge(), self._grid.stage + 1)
        with telemetry.phase("backward"):
            _Seed.apply(out, gradient).backward()
        if not self._grid.is_first_stage:
            assert source.grad is not None, "an activation that was received has a gradient"
            self._send(source.grad, forward=False)

    def _receive_activation(self) -> torch.Tensor:
        return self._grid.up.receive(self._edge(), self._grid.stage - 1).requires_grad_()

    def _send(self, tensor: torch.Tensor, *, forward: bool) -> None:
        grid = self._grid
        group, to = (grid.up, grid.stage + 1) if forward else (grid.down, grid.stage - 1)
        payload = tensor.contiguous()
        self._sending.append((group.send(payload, to), payload))

    def _edge(self) -> torch.Tensor:
        return torch.empty(self._edge_shape, dtype=self._dtype, device=self._grid.device)

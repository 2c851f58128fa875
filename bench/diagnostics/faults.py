"""Faults of a node, planted in the process that is going to run a probe.

Called by `exams` in a child of its own: nothing is taken back.
"""

import os
import signal
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from holdfast.diagnostics.probes import compute

SLOWER = 3
"""Times: the least that passes is half of the median."""


class _WrongBit(torch.Tensor):
    """Multiplies with one bit of one element flipped, as a bad unit does."""

    def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
        product = torch.matmul(self.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor))
        product.view(torch.int32)[3, 5] ^= 1
        return product


class _Slow(torch.Tensor):
    """Multiplies three times where once is asked for."""

    def __matmul__(self, other: torch.Tensor) -> torch.Tensor:
        plain = self.as_subclass(torch.Tensor), other.as_subclass(torch.Tensor)
        return [torch.matmul(*plain) for _ in range(SLOWER)][-1]


Plant = Callable[[float], None]
"""Makes this process faulty, given what a healthy one reaches, in the unit of its test."""


def _matrices(of: type[torch.Tensor]) -> Plant:
    def plant(healthy: float) -> None:
        good = compute.circulant
        compute.circulant = lambda row: good(row).as_subclass(of)

    return plant


def _slow_link(healthy: float) -> None:
    good = dist.all_reduce

    def late(data: torch.Tensor) -> None:
        # Before, not after: on a slow link both ends wait.
        time.sleep((SLOWER - 1) * data.nbytes / (healthy * 1e6))
        good(data)

    dist.all_reduce = late  # type: ignore[assignment]


def _stopped(healthy: float) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


FAULTS: dict[str, dict[str, Plant]] = {
    "compute": {"a wrong bit": _matrices(_WrongBit), "a third of the speed": _matrices(_Slow)},
    "allreduce": {"a third of the speed": _slow_link, "stopped": _stopped},
}
"""By test. A node with a fault spoils each of its tests; its partners have none."""

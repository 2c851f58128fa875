"""A rank goes on, and its figures are not what they were."""

import random
import time
from typing import Any

import torch

from holdfast import telemetry
from holdfast.workload.train import Trainer

STEP_SHARE_S = 0.06
"""About as long as a step of the workload here."""
LONG_STEP_S = 0.5
SKIPPED = 16
"""Steps in a row that a `GradScaler` of torch skips at most until it scales by 1."""
SPIKE = 100.0
"""A loss that is far above that of the workload."""


def nan(trainer: Trainer) -> None:
    """Parameters are no numbers any more, and soon those of its peers are none."""
    trainer.zero.flat.values.fill_(float("nan"))


def slow(_trainer: Trainer) -> None:
    """Half as much again to compute."""
    until = time.thread_time() + STEP_SHARE_S / 2
    while time.thread_time() < until:
        pass


def jitter(_trainer: Trainer) -> None:
    """A long step now and then, at random."""
    if random.random() < 0.05:
        time.sleep(random.uniform(0.05, 0.3))


def breathe(_trainer: Trainer) -> None:
    """A long step, for all alike: no bug, and a job that lasts as long as a fault takes to do."""
    time.sleep(LONG_STEP_S)


def flip(trainer: Trainer) -> None:
    """One bit of one parameter is another one, as if a processor had computed wrong."""
    values = trainer.zero.flat.values
    values[:1].view(torch.int32).bitwise_xor_(1 << 20)


def overflow(trainer: Trainer) -> None:
    """Bits of gradients are others, and what was nought is infinite: the next loss is no number."""
    trainer.zero.flat.gradients[::97].view(torch.int32).bitwise_xor_(0x7F800000)


def spike(_trainer: Trainer) -> None:
    """A loss that is no number for some steps, as where a scaler skips them, then a high one; and
    all is well again. Nothing but the loss that is told is touched."""
    told, healthy = iter([float("nan")] * SKIPPED + [SPIKE] * SKIPPED), telemetry.step

    def step(number: int, *, loss: float | None = None, **figures: Any) -> None:
        value = next(told, None)
        if value is None:
            setattr(telemetry, "step", healthy)  # noqa: B010 - a user who patches a library
        healthy(number, loss=loss if value is None else value, **figures)

    setattr(telemetry, "step", step)  # noqa: B010


def complain(_trainer: Trainer) -> None:
    """Words of a broken GPU, of which nothing is true."""
    print("retrying after CUDA error: an illegal memory access was encountered", flush=True)
    print("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", flush=True)


BUGS = {
    "nan": nan,
    "slow": slow,
    "jitter": jitter,
    "breathe": breathe,
    "flip": flip,
    "overflow": overflow,
    "spike": spike,
    "complain": complain,
}

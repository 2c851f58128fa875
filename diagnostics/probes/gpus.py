"""Copies that have to do with a GPU, for the tests of those: made on each in turn, and compared.

Used by `gpu_memory` and `gpu_host`. Where there is no GPU torch is not loaded, and nothing is
measured; the device is handed in, so that the same code runs on a CPU.
"""

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.diagnostics.probes import Measured, too_little
from holdfast.kit.cgroup import free_bytes
from holdfast.protocol.messages import DiagnosticOrder

if TYPE_CHECKING:
    import torch

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Files of what drives GPUs: NVIDIA's, AMD's, Windows' for Linux."""
NONE = "torch sees no GPU here"

OnDevice = Callable[["torch.device", int], Measured]
"""Measures one device, so many times."""


def there() -> bool:
    """Whether something drives GPUs here."""
    return any(Path(each).exists() for each in DRIVERS)


if there():
    import_module("torch")  # before the time of the test counts


def each_gpu(order: DiagnosticOrder, on_device: OnDevice) -> Measured:
    """The slowest, or what is wrong with one; no figure where there is none."""
    if not there():
        return Measured(ok=True, detail=NONE)
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [torch.device("cuda", number) for number in range(count)]
    return worst([_tried(device, on_device, order.repeats) for device in devices])


def _tried(device: "torch.device", on_device: OnDevice, repeats: int) -> Measured:
    """Nothing is known where torch gives up: a process beside it may have its memory. (Of a GPU
    that computes no more `compute` tells.)"""
    try:
        return on_device(device, repeats)
    except RuntimeError as error:
        return Measured(ok=None, detail=f"{device}: {str(error).strip().splitlines()[0][:200]}")


def worst(found: Sequence[Measured]) -> Measured:
    """One that is wrong, else one that could not be measured, else the slowest."""

    def rank(one: Measured) -> tuple[bool, bool, float]:
        return not one.wrong, one.ok is not None, one.value or 0.0

    return min(found, key=rank, default=Measured(ok=True, detail=NONE))


def no_room(device: "torch.device", needed_bytes: int) -> Measured | None:
    """Why it cannot be measured, where its memory is short."""
    import torch

    cuda = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if cuda else free_bytes()
    if free is None or free >= needed_bytes:
        return None
    return too_little(f"the memory of {device}", free, needed_bytes)


def pattern(size_bytes: int, device: "torch.device", *, pinned: bool = False) -> "torch.Tensor":
    """Numbers that are all different."""
    import torch

    return torch.arange(size_bytes // 8, dtype=torch.int64, device=device, pin_memory=pinned)


def speed(target: "torch.Tensor", source: "torch.Tensor", repeats: int) -> float:
    """GB/s of the fastest of so many copies, after one that is not counted."""
    import torch

    gpus = [each.device for each in (target, source) if each.device.type == "cuda"]
    spans = []
    for _ in range(1 + max(1, repeats)):
        begin_s = time.perf_counter()
        target.copy_(source, non_blocking=True)
        for device in gpus:
            torch.cuda.synchronize(device)
        spans.append(time.perf_counter() - begin_s)
    return source.nbytes / min(spans[1:]) / 1e9


def told(device: "torch.device", value: float, text: str, *, same: bool) -> Measured:
    """What was measured, where the copies are what they are copies of."""
    if not same:
        return Measured(ok=False, wrong=True, detail=f"{device}: a copy is not what it is of")
    return Measured(ok=True, value=value, detail=f"{device}: {text}")

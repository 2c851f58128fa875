"""How fast does each GPU get what the host has, and the host what it has: over memory that is
pinned, and one way at a time; see `gpus`."""

from typing import TYPE_CHECKING

from holdfast.diagnostics.probes import Measured, gpus, too_little
from holdfast.kit.cgroup import free_bytes
from holdfast.protocol.messages import DiagnosticOrder

if TYPE_CHECKING:
    import torch

SIZE_BYTES = 128 << 20
"""2 ms on the fastest bus there is today (64 GB/s): starting a copy, some 10 us, does not count."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """GB/s of the slowest GPU, the worse of both ways."""
    return gpus.each_gpu(order, lambda device, repeats: on_device(device, SIZE_BYTES, repeats))


def on_device(device: "torch.device", size_bytes: int, repeats: int) -> Measured:
    """The fastest of so many copies there, and of so many back."""
    import torch

    host, pinned = torch.device("cpu"), device.type == "cuda"
    if (short := gpus.no_room(device, 2 * size_bytes) or _short(size_bytes)) is not None:
        return short
    source = gpus.pattern(size_bytes, host, pinned=pinned)
    back = torch.zeros_like(source, pin_memory=pinned)
    there = torch.zeros_like(source, device=device, pin_memory=False)
    to, from_ = gpus.speed(there, source, repeats), gpus.speed(back, there, repeats)
    text = f"{to:.1f} GB/s to it, {from_:.1f} GB/s from it"
    return gpus.told(device, min(to, from_), text, same=torch.equal(source, back))


def _short(size_bytes: int) -> Measured | None:
    """Why the host cannot hold what is copied, and a copy of it."""
    free = free_bytes()
    short = free is not None and free < 4 * size_bytes
    return too_little("memory", free or 0, 4 * size_bytes) if short else None

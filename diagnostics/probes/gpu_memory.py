"""How fast does each GPU copy its own memory, and is the copy the same; see `gpus`."""

from typing import TYPE_CHECKING

from holdfast.diagnostics.probes import Measured, gpus
from holdfast.protocol.messages import DiagnosticOrder

if TYPE_CHECKING:
    import torch

SIZE_BYTES = 512 << 20
"""Ten times the cache of an H100: what is copied comes from memory."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """GB of copies a second, of the slowest GPU; each reads and writes so many."""
    return gpus.each_gpu(order, lambda device, repeats: on_device(device, SIZE_BYTES, repeats))


def on_device(device: "torch.device", size_bytes: int, repeats: int) -> Measured:
    """The fastest of so many copies."""
    import torch

    if (short := gpus.no_room(device, 3 * size_bytes)) is not None:
        return short
    source = gpus.pattern(size_bytes, device)
    target = torch.zeros_like(source)
    value = gpus.speed(target, source, repeats)
    return gpus.told(device, value, f"{value:.0f} GB/s", same=torch.equal(source, target))

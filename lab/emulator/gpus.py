"""GPUs of an emulated node, as the files that its daemon reads in place of NVML.

Called by the node as it is made, when all are well, and by whoever breaks one. Which figures there
are says `daemon.samplers.gpus`.
"""

from pathlib import Path

from holdfast.kit.files import write_atomic
from holdfast.protocol.paths import NodePaths

WELL: dict[str, int | str] = {
    "lost": 0,
    "celsius": 42,
    "slowed_by_heat": 0,
    "uncorrected_errors": 0,
    "remap_failed": 0,
    "recovery": "",
    "lanes": 16,
    "memory_bytes": 3 << 30,
}


def tell(scratch: Path, gpu: int, **figures: int | str) -> None:
    """Have GPU number `gpu` of the node with this scratch folder say so. Raises `OSError`."""
    folder = NodePaths(scratch=scratch, memory=scratch).gpus / str(gpu)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in figures.items():
        write_atomic(folder / name, f"{value}\n".encode())

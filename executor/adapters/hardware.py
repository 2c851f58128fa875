"""What this node has, from /proc and /sys: no library, so that starting stays fast."""

import os
from pathlib import Path

from holdfast.protocol.messages import Hardware


def hardware() -> Hardware:
    """Processors that this process may use, memory, GPUs, RDMA devices."""
    gpus = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    nics = sorted(
        os.fsencode(path.name).decode(errors="replace")
        for path in Path("/sys/class/infiniband").glob("*")
    )
    return Hardware(
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=len(gpus),
        gpu_model=_model(gpus[0]) if gpus else "",
        nics=tuple(nics),
    )


def _model(information: Path) -> str:
    try:
        lines = information.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]
    return models[0] if models else ""

"""Can this node talk to its neighbours, and how fast: an all-reduce among the order's members.

The first member serves the group's store, on its own address only. NCCL where there are GPUs, gloo
elsewhere; the sum is checked.
"""

import statistics
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from holdfast.diagnostics.probes import Measured, listening
from holdfast.protocol.messages import DiagnosticOrder

LATER = 2
"""Times the time box that torch itself waits: the runner is to be the one that ends it."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """Size over the median time of `repeats` all-reduces, after one that is not counted."""
    if order.rendezvous is None or node not in order.members:
        return Measured(ok=None, detail=f"{node} is not a member of this test")
    rank, limit = order.members.index(node), timedelta(seconds=LATER * order.time_box_s)
    try:
        listener = listening(order.rendezvous) if rank == 0 else None
    except OSError as error:
        where = f"{order.rendezvous.address}:{order.rendezvous.port}"
        return Measured(ok=None, detail=f"cannot serve on {where}: {error.strerror}")
    try:
        store = dist.TCPStore(  # type: ignore[attr-defined]
            order.rendezvous.address,
            order.rendezvous.port,
            world_size=len(order.members),
            is_master=rank == 0,
            timeout=limit,
            wait_for_workers=False,
            master_listen_fd=listener.detach() if listener else None,
        )
        device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=len(order.members), timeout=limit
        )
        return _measure(order, rank, device)
    except RuntimeError as error:
        return Measured(ok=False, detail=str(error).strip().splitlines()[0][:200])


def _measure(order: DiagnosticOrder, rank: int, device: torch.device) -> Measured:
    world = len(order.members)
    spans = []
    for _ in range(1 + max(1, order.repeats)):
        data = torch.full((order.size_bytes // 4,), float(rank + 1), device=device)
        dist.barrier()
        begin_s = time.perf_counter()
        dist.all_reduce(data)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spans.append(time.perf_counter() - begin_s)
        if bool((data != world * (world + 1) / 2).any()):
            return Measured(ok=False, detail="wrong sum")
    speed = order.size_bytes / statistics.median(spans[1:]) / 1e6
    return Measured(ok=True, value=speed)

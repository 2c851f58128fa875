"""A script: `ranks.py FOLDER COUNT WORK` forks ranks that train one small model with DDP.

They train until the file `stop` is in the folder. What is in the file `slow` there ("RANK PERCENT")
makes that rank compute for so much longer, from its next step on: of each step's CPU time.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:

    folder, count, work = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    children = []
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            _train(folder, rank, count, work)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def _train(folder: Path, rank: int, count: int, work: int) -> None:
    os.environ.update(RANK=str(rank), HOLDFAST_RING=str(folder / f"rings/job.e1.r{rank}.ring"))
    os.environ["HOLDFAST_EPOCH"] = "1"
    from holdfast.telemetry import hooks

    hooks.install()
    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    store = f"file://{folder / 'meet'}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    layers = [layer for _ in range(3) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(work, 256)
    stopped = torch.zeros(1)
    while not stopped.item():
        optimizer.zero_grad()
        began_s = time.thread_time()
        loss = model(inputs).square().mean()
        _burn((time.thread_time() - began_s) * 3 * _percent(folder, rank) / 100)
        loss.backward()
        optimizer.step()
        stopped.fill_((folder / "stop").exists() if rank == 0 else 0)
        distributed.broadcast(stopped, 0)
    distributed.destroy_process_group()


def _percent(folder: Path, rank: int) -> float:
    """How much longer this rank is to compute: forward is about a third of its step."""
    try:
        who, percent = (folder / "slow").read_text().split()
    except (FileNotFoundError, ValueError):
        return 0.0
    return float(percent) if int(who) == rank else 0.0


def _burn(cpu_s: float) -> None:
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


if __name__ == "__main__":
    main()

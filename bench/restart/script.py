"""The script that both systems run: plain torch.distributed, its own checkpoint every step.

Started as 4 ranks by torchrun or by `holdfast run`: `script.py FOLDER`. Imports nothing of
Holdfast, and knows nothing of faults. Each rank appends "step, monotonic nanoseconds, life" to
FOLDER/marks.rank_R when a step is complete, its checkpoint included; whoever watches reads that.
A life is one process: the nanoseconds at which it began.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

WIDTH, DEPTH, BATCH = 256, 4, 32
STEPS = 1_000_000
"""More than any benchmark waits for."""


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Steps that the checkpoint has; 0 where there is none."""
    if not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Replace the checkpoint; a kill leaves the old one or the new one."""
    beside = path.with_suffix(".new")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, beside)
    beside.replace(path)


def train(folder: Path) -> None:
    life = time.monotonic_ns()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpoint = folder / "checkpoint.pt"
    done = load(checkpoint, model, optimizer)
    dist.barrier()  # all have read it before the first step replaces it
    with (folder / f"marks.rank_{rank}").open("ab", buffering=0) as marks:
        for step in range(done + 1, STEPS + 1):
            generator = torch.Generator().manual_seed(step * world + rank)
            batch = torch.randn(BATCH, WIDTH, generator=generator)
            optimizer.zero_grad()
            (model(batch) - batch.roll(1, 1)).square().mean().backward()
            for parameter in model.parameters():
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(world)
            optimizer.step()
            if rank == 0:
                save(checkpoint, model, optimizer, step)
            dist.barrier()
            marks.write(f"{step} {time.monotonic_ns()} {life}\n".encode())


if __name__ == "__main__":
    train(Path(sys.argv[1]))

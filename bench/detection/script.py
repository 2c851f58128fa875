"""The script that all systems run: plain torch.distributed, and a fault of its own when asked.

Started as 4 ranks: `script.py FOLDER [TIMEOUT_S]`. Imports nothing of Holdfast. Each rank leaves
the marks that `bench.restart.script` does. Where FOLDER/fault says "KIND RANK", that rank takes
the file away, writes to FOLDER/hurt when it begins, in monotonic nanoseconds, and misbehaves.
"""

import re
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

WIDTH, DEPTH, BATCH = 128, 4, 32
STEPS = 1_000_000
"""More than any benchmark waits for."""


def hold_the_gil() -> None:
    """A match that takes years, in which no other thread of the process may run."""
    re.match(r"(a+)+b", "a" * 60)


def spin() -> None:
    while True:
        pass


def meet() -> None:
    """Where the others reduce."""
    dist.barrier()


FAULTS: dict[str, Callable[[], None]] = {
    "gil": hold_the_gil,
    "spin": spin,
    "other": meet,
    "skip": lambda: None,
}
"""What is done in the place of one collective."""


def asked(folder: Path, rank: int) -> Callable[[], None] | None:
    """The fault that this rank is to have now."""
    order = folder / "fault"
    if not order.exists():
        return None
    kind, whose = order.read_text().split()
    if int(whose) != rank:
        return None
    order.unlink()
    (folder / "hurt").write_text(str(time.monotonic_ns()))
    return FAULTS[kind]


def train(folder: Path, timeout_s: float | None) -> None:
    life = time.monotonic_ns()
    timeout = None if timeout_s is None else timedelta(seconds=timeout_s)
    dist.init_process_group("gloo", timeout=timeout)
    rank = dist.get_rank()
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH)
    with (folder / f"marks.rank_{rank}").open("ab", buffering=0) as marks:
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            (model(batch) - batch).square().mean().backward()
            fault = asked(folder, rank)
            for parameter in model.parameters():
                assert parameter.grad is not None
                if fault is None:
                    dist.all_reduce(parameter.grad)
                else:
                    fault()
                    fault = None
            optimizer.step()
            marks.write(f"{step} {time.monotonic_ns()} {life}\n".encode())


if __name__ == "__main__":
    train(Path(sys.argv[1]), float(sys.argv[2]) if sys.argv[2:] else None)

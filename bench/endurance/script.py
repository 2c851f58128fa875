"""The script of both systems: `script.py FOLDER STEPS STEP_S`. Two lines of Holdfast, which keep
its state in FOLDER/checkpoints wherever it is started.

A step is a pause of STEP_S, as for a device that computes, and an all-reduce. Rank 0 adds the time
of each step that all have completed to FOLDER/steps, and leaves FOLDER/ended after the last.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from holdfast.checkpoint import Checkpointer

STORE_EVERY = 10
WIDTH = 256


def train(folder: Path, steps: int, step_s: float) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    state = {"model": model, "optimizer": optimizer}
    checkpointer = Checkpointer(
        store_url=(folder / "checkpoints").as_uri(),
        store_interval_steps=STORE_EVERY,
        replicated=["model", "optimizer"],
    )
    start = checkpointer.restore(state) or 0
    for step in range(start + 1, steps + 1):
        time.sleep(step_s)
        optimizer.zero_grad()
        model(torch.randn(8, WIDTH)).square().mean().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
        optimizer.step()
        checkpointer.save(step, state)
        if dist.get_rank() == 0:
            with (folder / "steps").open("a") as file:
                print(step, time.monotonic(), file=file)
    if dist.get_rank() == 0:
        (folder / "ended").write_text(str(time.monotonic()))


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))

"""The script whose saves and restarts are counted: `script.py FOLDER`.

Two lines of Holdfast, and a step of some milliseconds for which all ranks meet. Rank 0 leaves the
step that all have saved in FOLDER/step.
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

NUMBERS = 1_000_000
STEP_S = 0.02
STEPS = 1_000_000
"""More than any benchmark waits for."""


def train(folder: Path) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    weights = torch.zeros(NUMBERS)
    state: dict[str, object] = {"weights": weights, "step": 0}
    checkpointer = Checkpointer.from_env()
    start = checkpointer.restore(state) or 0
    for step in range(start + 1, STEPS):
        weights += 1
        state["step"] = step
        time.sleep(STEP_S)
        checkpointer.save(step, state)
        telemetry.step(step)
        dist.barrier()
        if dist.get_rank() == 0:
            (folder / "step").write_text(str(step))


if __name__ == "__main__":
    train(Path(sys.argv[1]))

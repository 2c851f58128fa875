"""The built-in workload with a user's bug in it: it meets it when a file says so.

Run as a rank by the chaos scenarios, with CHAOS_BUGS naming the folder of those files. A bug that
is not to come back removes its file first, as a transient one would.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from holdfast.checkpoint import Checkpointer
from holdfast.workload import main as workload
from holdfast.workload.train import Outcome, Trainer

FOLDER = Path(os.environ["CHAOS_BUGS"])
RANK = os.environ["RANK"]
POISON = FOLDER / "poison"
"""Names a step: what is saved from there on ends who starts from it, until one has started from
before."""
PAUSE_S = 30.0
"""Twice as long as a rank may be stuck (`--stuck-max`)."""

_healthy_step, _healthy_resume = Trainer.step, workload.resume


def spin() -> None:
    while True:
        pass


def pipe() -> None:
    """Wait for a data loader that will never write."""
    theirs, _ours = os.pipe()
    os.read(theirs, 1)


def fail() -> None:
    raise ValueError("the label of sample 17 is not in the vocabulary")


def leave() -> None:
    """As if this rank's data ended earlier than those of its peers."""
    sys.exit(0)


def evaluate() -> None:
    """No step for a while, and work all the time."""
    model, until = torch.nn.Identity().eval(), time.monotonic() + PAUSE_S
    while time.monotonic() < until:
        model(torch.ones(64, 64)).matmul(torch.ones(64, 64))
    model.train()


def idle() -> None:
    """No step for a while, and nothing that moves: another program takes its time."""
    subprocess.run(["sleep", f"{PAUSE_S:g}"], check=True)


BUGS = {
    "spin": spin,
    "pipe": pipe,
    "raise": fail,
    "leave": leave,
    "evaluate": evaluate,
    "idle": idle,
}


def buggy_step(self: Trainer) -> Outcome:
    for name, bug in BUGS.items():
        once = FOLDER / f"{name}.rank{RANK}"
        if Path(f"{once}.always").exists() or _met(Path(f"{once}.here"), self.progress.step):
            bug()
        if once.exists():
            once.unlink()
            bug()
    return _healthy_step(self)


def _met(here: Path, step: int) -> bool:
    """Whether the bug is at this step: it is at the one where it was met first."""
    if not here.exists():
        return False
    if not here.read_text():
        here.write_text(str(step))
    return here.read_text() == str(step)


def poisoned_resume(trainer: Trainer, checkpointer: Checkpointer) -> None:
    """As a script that looks at its loss before it goes on."""
    _healthy_resume(trainer, checkpointer)
    if (poison := _poison()) is None:
        return
    if trainer.progress.step >= poison:
        raise FloatingPointError("the loss is not a number")
    POISON.unlink(missing_ok=True)


def _poison() -> int | None:
    try:
        return int(POISON.read_text())
    except FileNotFoundError:  # a peer that started from before has removed it
        return None


if __name__ == "__main__":
    setattr(Trainer, "step", buggy_step)  # noqa: B010 - a user who patches a library
    setattr(workload, "resume", poisoned_resume)  # noqa: B010
    sys.exit(workload.main())

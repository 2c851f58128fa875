"""The built-in workload with a user's bug in it: it meets it when a file says so.

Run as a rank by the chaos scenarios, with CHAOS_BUGS naming the folder of those files. A bug that
is not to come back removes its file first, as a transient one would.
"""

import os
import sys
from pathlib import Path

from holdfast.workload import main as workload
from holdfast.workload.train import Outcome, Trainer

FOLDER = Path(os.environ["CHAOS_BUGS"])
RANK = os.environ["RANK"]

_healthy_step = Trainer.step


def spin() -> None:
    while True:
        pass


def pipe() -> None:
    """Wait for a data loader that will never write."""
    theirs, _ours = os.pipe()
    os.read(theirs, 1)


def fail() -> None:
    raise ValueError("the label of sample 17 is not in the vocabulary")


BUGS = {"spin": spin, "pipe": pipe, "raise": fail}


def buggy_step(self: Trainer) -> Outcome:
    for name, bug in BUGS.items():
        if (FOLDER / f"{name}.rank{RANK}.always").exists():
            bug()
        once = FOLDER / f"{name}.rank{RANK}"
        if once.exists():
            once.unlink()
            bug()
    return _healthy_step(self)


if __name__ == "__main__":
    setattr(Trainer, "step", buggy_step)  # noqa: B010 - a user who patches a library
    sys.exit(workload.main())

"""The built-in workload with a user's bug in it: it meets it when a file says so.

Run as a rank by the chaos scenarios, with CHAOS_BUGS naming the folder of those files. A bug that
is not to come back removes its file first, as a transient one would.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.checkpoint import Checkpointer
from holdfast.lab.chaos.scripts.bugs import AFTERWARDS, BUGS
from holdfast.workload import main as workload
from holdfast.workload.train import Outcome, Trainer

FOLDER = Path(os.environ["CHAOS_BUGS"])
RANK = os.environ["RANK"]
POISON = FOLDER / "poison"
"""Names a step: what is saved from there on ends who starts from it, until one has started from
before."""

_healthy_step, _healthy_resume = Trainer.step, workload.resume


def buggy_step(self: Trainer) -> Outcome:
    for name, bug in BUGS.items():
        if name not in AFTERWARDS:
            _meet(name, bug, self)
    outcome = _healthy_step(self)
    for name in AFTERWARDS:
        _meet(name, BUGS[name], self)
    return outcome


def _meet(name: str, bug: Callable[[Trainer], None], trainer: Trainer) -> None:
    armed = FOLDER / f"{name}.rank{RANK}"
    if _always(armed, trainer.progress.step) or _met(Path(f"{armed}.here"), trainer.progress.step):
        Path(f"{armed}.met").touch()
        bug(trainer)
    if armed.exists():
        armed.unlink()
        bug(trainer)


def _always(armed: Path, step: int) -> bool:
    """Whether it comes again and again, and now: at each multiple of the steps that stand there."""
    try:
        every = int(Path(f"{armed}.always").read_text() or "1")
    except FileNotFoundError:
        return False
    return step > 0 and step % every == 0


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

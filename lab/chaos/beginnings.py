"""No job that acknowledged a checkpoint begins from 0 by itself. Pure: the driver's journal tells.

Called by `chaos.play` after each scenario, whatever its fault was.
"""

from collections.abc import Iterator, Sequence

from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.events import CheckpointStored, JobSubmitted, ResumeRequested
from holdfast.driver.ports import Entry


def by_themselves(entries: Sequence[Entry], job: str, *, behind: bool = False) -> list[str]:
    """Attempts of the job that began at step 0 though its store had a step of the line of training,
    and no person had asked for that; in sentences. `behind`: or at any step before that.
    """
    wrong: list[str] = []
    stored: list[tuple[int, int]] = []  # step, and the epoch that wrote it
    starts: list[tuple[int, int]] = []  # epoch, and the step from which its ranks started
    asked = False
    for entry in entries:
        match entry.event:
            case JobSubmitted(job=name) if name == job:
                stored, starts, asked = [], [], False
            case CheckpointStored(job=name, step=step, epoch=epoch) if name == job:
                stored.append((step, epoch))
            case ResumeRequested(job=name, from_step=0) if name == job:
                asked = True
        for epoch, step in _starts(entry, job):
            if starts and epoch <= starts[-1][0]:
                continue
            had = max(_on_the_line(stored, starts), default=0)
            if not asked and (step < had if behind else had and not step):
                told = f"attempt {len(starts) + 1} of {job} began at step {step}"
                wrong.append(f"{told}, and step {had} was stored")
            starts.append((epoch, step))
            asked = False
    return wrong


def _starts(entry: Entry, job: str) -> Iterator[tuple[int, int]]:
    """Epochs whose ranks the entry has started, each with its first step less one."""
    for effect in entry.effects:
        if isinstance(effect, Instruct) and effect.desired.job == job and effect.desired.seats:
            restore = effect.desired.restore
            yield effect.desired.epoch, restore.step if restore is not None else 0


def _on_the_line(
    stored: Sequence[tuple[int, int]], starts: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Steps that no later epoch went behind: what was rolled back is not to be started from."""
    for step, epoch in stored:
        if all(begun >= step for later, begun in starts if later > epoch):
            yield step

"""How far a job is: as its ranks said last, or what is known where they say nothing any more.

Used by `views`. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.driver.core.state.model import Job, Phase
from holdfast.driver.core.state.node import Exited
from holdfast.driver.watch import JobProgress


class HowFar(NamedTuple):
    """A step, None where none is known. `relative`: it counts from the start of the attempt."""

    step: int | None
    relative: bool = False


def how_far(job: Job, live: JobProgress | None, exits: Sequence[Exited]) -> HowFar:
    """`live`: what detectors know, where they follow its ranks; `exits`: of those that ended."""
    heard = live or job.reached
    own = [each.status.step for each in exits if each.status.saved is not None]
    if heard is None and any(own):
        return HowFar(min(step for step in own if step), relative=True)
    steps = [job.best_step, heard.step if heard else None, *(each.step for each in exits)]
    if job.phase is Phase.SUCCEEDED:  # heartbeats end before the last step is told
        last = [each.status.step for each in exits]
        steps.append(min((step for step in last if step is not None), default=None))
    known = [step for step in steps if step is not None]
    return HowFar(max(known, default=None), relative=heard is not None and heard.relative)

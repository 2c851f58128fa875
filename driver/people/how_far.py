"""How far a job is: as its ranks said last, or what is known where they say nothing any more.

Used by `views` and by the status on Kubernetes. Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.driver.core.state.model import Job, Phase
from holdfast.driver.core.state.node import Exited
from holdfast.driver.watch import JobFigures


class HowFar(NamedTuple):
    """The furthest step, None where none is known. `relative`: it counts from the start of the
    attempt. `again_from`: steps are done again, and this is the one that its ranks started from.
    """

    step: int | None
    relative: bool = False
    again_from: int | None = None


def how_far(job: Job, live: JobFigures | None, exits: Sequence[Exited]) -> HowFar:
    """`live`: what detectors know, where they follow its ranks; `exits`: of those that ended."""
    heard = live or job.reached
    own = [each.status.step for each in exits if each.status.saved is not None]
    if heard is None and any(own):
        return HowFar(min(step for step in own if step), relative=True)
    steps = [furthest(job, live), *(each.step for each in exits)]
    if job.phase is Phase.SUCCEEDED:  # heartbeats end before the last step is told
        last = [each.status.step for each in exits]
        least = min((step for step in last if step is not None), default=None)
        steps.append(least or None)  # 0: its script told none
    known = [step for step in steps if step is not None]
    relative = heard is not None and heard.relative
    again_from = None if relative else _again_from(job, live)
    return HowFar(max(known, default=None), relative, again_from)


def furthest(job: Job, live: JobFigures | None) -> int | None:
    """The highest step that all ranks are known to have completed, in whatever attempt; of steps
    that count from the start of an attempt, in this one.
    """
    heard = live or job.reached
    before = live.best_step if live is not None and not live.relative else None
    steps = (job.best_step, heard.step if heard else None, before)
    return max((step for step in steps if step is not None), default=None)


def _again_from(job: Job, live: JobFigures | None) -> int | None:
    """Where its ranks started, as long as they are not as far as those before them."""
    if live is None or not job.seated or live.step >= live.best_step:
        return None
    return job.restore.step if job.restore is not None else 0

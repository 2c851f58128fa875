"""A store that does not let go of old checkpoints fills up: said once, and once that it does. Pure.

The node of rank 0 alone deletes. Where its place moves, the next one's sweep takes it back.
"""

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import NOTHING, Findings, Recalled
from holdfast.driver.watch.store_failing import finding
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import Observed

Filling = frozenset[str]
"""Jobs of which it was said."""


class FillingStores(Detector):
    def __init__(self) -> None:
        self._filling: Filling = frozenset()

    def reported(self, seen: Observed, context: Context) -> Findings:
        recalled = context.recalled_of(seen.job or "")
        self._filling, findings = judge(self._filling, seen, recalled)
        return findings

    def drop(self, job: str) -> None:
        self._filling -= {job}


def judge(
    filling: Filling, seen: Observed, recalled: Recalled = NOTHING
) -> tuple[Filling, Findings]:
    """What one report of an executor says of it. `recalled`: what an earlier driver told of the job
    and did not take back."""
    job = seen.job
    if job is None or not (seen.undeleted or seen.swept):
        return filling, ()
    known = job in filling or Kind.STORE_FILLS in recalled
    if seen.undeleted:
        text = f"old checkpoints of {job} stay in its store, which fills up: {seen.undeleted}"
        told = () if known else (finding(Kind.STORE_FILLS, job, seen, text),)
        return filling | {job}, told
    if not known:
        return filling, ()
    text = f"old checkpoints of {job} are deleted again"
    return filling - {job}, (finding(Kind.STORE_SWEPT, job, seen, text),)

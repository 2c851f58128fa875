"""A Redis where ranks meet that does not answer: said once, and once that it does. Pure.

Nobody is accused of it, and nothing is done: who has met trains on, and new attempts are held by
their executor until it is back. Whoever stands before its first step meanwhile waits for it.
"""

from collections.abc import Mapping

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import NOTHING, Findings, Recalled
from holdfast.driver.watch.store_failing import finding
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import Observed

Away = Mapping[str, str]
"""Jobs of which it was said, and the node that saw it."""


class AwayMeetings(Detector):
    def __init__(self) -> None:
        self._away: Away = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        recalled = context.recalled_of(seen.job or "")
        self._away, findings = judge(self._away, seen, recalled)
        return findings

    def away(self, job: str) -> bool:
        """Whether ranks of the job that have not met may wait for it."""
        return job in self._away

    def drop(self, job: str) -> None:
        self._away = {name: node for name, node in self._away.items() if name != job}


def judge(away: Away, seen: Observed, recalled: Recalled = NOTHING) -> tuple[Away, Findings]:
    """What one report of an executor says of it; who has not looked says nothing. `recalled`: what
    an earlier driver told of the job and did not take back."""
    job = seen.job
    if job is None or seen.meeting is None:
        return away, ()
    told = job in away or Kind.RENDEZVOUS_AWAY in recalled
    if seen.meeting:
        text = (
            f"{seen.meeting}, as {seen.node} sees it: ranks of {job} that have met go on, others "
        )
        text += "wait until it is back"
        found = () if told else (finding(Kind.RENDEZVOUS_AWAY, job, seen, text),)
        return {**away, job: seen.node}, found
    if not told:
        return away, ()
    rest = {name: node for name, node in away.items() if name != job}
    text = f"the Redis where ranks of {job} meet answers again"
    return rest, (finding(Kind.RENDEZVOUS_BACK, job, seen, text),)

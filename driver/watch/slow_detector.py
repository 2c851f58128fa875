"""`SlowRanks`: brings each job's heartbeats to `slow`, and keeps what that knows of it. Pure."""

from collections.abc import Mapping

from holdfast.driver.watch import slow
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Findings
from holdfast.driver.watch.slow import Slow
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import Heartbeat


class SlowRanks(Detector):
    """Of whom nothing is heard nothing is known: so nobody is told while few nodes report."""

    def __init__(self) -> None:
        self._slow: dict[str, Slow] = {}
        self._said: dict[str, dict[int, str]] = {}  # by rank

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        known, told = self._slow.get(name, Slow()), context.recalled_of(name)
        self._slow[name] = slow.fold(known, beat, job.ranks, job.expected, told)
        return ()

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        known = self._slow.get(job.expected.job)
        if known is None or not context.sees_most:
            return ()
        told = slow.judge(
            known, job.ranks, job.expected, context.period_s, context.now, hot=job.hot
        )
        for finding in told:
            if finding.kind is Kind.SLOW:
                said = dict.fromkeys(known.told, finding.summary)
                self._said[job.expected.job] = said | self._said.get(job.expected.job, {})
        return told

    def verdicts(self, job: str) -> Mapping[int, str]:
        """Of those that were told and have not kept pace since."""
        known, said = self._slow.get(job), self._said.get(job, {})
        return {rank: said[rank] for rank in known.told if rank in said} if known else {}

    def drop(self, job: str) -> None:
        self._slow.pop(job, None)
        self._said.pop(job, None)

"""`Standstills`: looks at each job for whether it stands still, and keeps what `standstill` knows.

Pure. The pace, the ranks and what they use are the job's; who is in another collective than its
peers is asked of the detector that found it, and what NCCL says is put beside what is found.
"""

from collections.abc import Callable

import msgspec

from holdfast.driver.watch import doubt, jobs, standstill
from holdfast.driver.watch.collective_diverged import Odd
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings
from holdfast.driver.watch.nccl import NcclWords
from holdfast.driver.watch.standstill_case import JobView
from holdfast.driver.watch.standstill_limits import Still


class Standstills(Detector):
    """`odd_of`: who of an attempt's ranks is in another collective than its peers. `nccl`: what
    NCCL itself says of a job. `away`: whether the Redis where its ranks meet is silent."""

    def __init__(
        self,
        *,
        odd_of: Callable[[Expectation], Odd | None],
        nccl: NcclWords,
        away: Callable[[str], bool],
    ) -> None:
        self._odd_of, self._nccl, self._away = odd_of, nccl, away
        self._still: dict[str, Still] = {}

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        expected, name = job.expected, job.expected.job
        still = standstill.begun(self._still.get(name), expected, job.began_s)
        if self._away(name) and jobs.tempo(job)[0].stepped_s is None:
            # its ranks wait for that, nobody is to be named, and their time begins anew after it
            self._still[name] = msgspec.structs.replace(still, began_s=context.now)
            return ()
        if jobs.quiet_s(job, context.now) <= jobs.QUIET_S:
            still, findings = standstill.ended(still, expected, jobs.tempo(job)[0])
        else:
            still, findings = self._judged(still, job, context)
        self._still[name] = still
        return self._nccl.beside(findings, job, context, named=bool(still.named))

    def _judged(self, still: Still, job: JobSeen, context: Context) -> tuple[Still, Findings]:
        now, (pace, unit) = context.now, jobs.tempo(job)
        view = JobView(
            expected=job.expected,
            ranks=jobs.fresh(job, now),
            pace=pace,
            cpu=jobs.cpu(job, now),
            settings=context.settings,
            now=now,
            unit=unit,
            odd=self._odd_of(job.expected),
        )
        still, findings = standstill.judge(still, view)
        return still, doubt.marked(findings, view.ranks, len(job.places), job.jumps, now)

    def drop(self, job: str) -> None:
        self._still.pop(job, None)

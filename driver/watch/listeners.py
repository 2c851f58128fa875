"""`Listeners`: the detectors by what they listen to; what they find comes back as events. Pure.

Made by `Watch`. One that meets a defect in a job's affairs costs that job what it finds, and the
others go on.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TypeVar

from holdfast.driver.core.events import AnyEvent, Found
from holdfast.driver.watch.detector import (
    Context,
    Detector,
    HearsExecutors,
    HearsJobs,
    HearsNodes,
    LooksAtJobs,
    LooksAtNodes,
)
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Findings
from holdfast.protocol.faults import ALL_CLEAR
from holdfast.protocol.messages import Heartbeat, Observed

_Asked = TypeVar("_Asked")


class Listeners:
    """The detectors by what they listen to, each list in their order."""

    def __init__(self, detectors: tuple[Detector, ...], context: Context) -> None:
        self._context = context
        self._hear_nodes = [each for each in detectors if isinstance(each, HearsNodes)]
        self._hear_jobs = [each for each in detectors if isinstance(each, HearsJobs)]
        self._hear_executors = [each for each in detectors if isinstance(each, HearsExecutors)]
        self._look_at_nodes = [each for each in detectors if isinstance(each, LooksAtNodes)]
        self._look_at_jobs = [each for each in detectors if isinstance(each, LooksAtJobs)]

    def heard(self, beat: Heartbeat, job: JobSeen | None) -> list[AnyEvent]:
        """A node's heartbeat; `job` has ranks there."""
        context, name = self._context, None if job is None else job.expected.job
        events = self._asked(name, self._hear_nodes, lambda one: one.heard(beat, context))
        if job is not None:
            hears = self._hear_jobs
            events += self._asked(name, hears, lambda one: one.heard_of(beat, job, context))
        return events

    def reported(self, seen: Observed) -> list[AnyEvent]:
        hears, context = self._hear_executors, self._context
        return self._asked(seen.job, hears, lambda one: one.reported(seen, context))

    def looked(self) -> list[AnyEvent]:
        context = self._context
        return self._asked(None, self._look_at_nodes, lambda one: one.looked(context))

    def looked_at(self, job: JobSeen) -> list[AnyEvent]:
        name, context = job.expected.job, self._context
        return self._asked(name, self._look_at_jobs, lambda one: one.looked_at(job, context))

    def _asked(
        self, job: str | None, detectors: Iterable[_Asked], ask: Callable[[_Asked], Findings]
    ) -> list[AnyEvent]:
        """What each of them finds. There is one guard around all, entered again where one met a
        defect: a heartbeat has no time for one around each."""
        events: list[AnyEvent] = []
        left, asked = iter(detectors), False
        while not asked:
            with nullcontext() if job is None else self._context.guard(job):
                for each in left:
                    if findings := ask(each):
                        events += self._told(findings)
                asked = True
        return events

    def _told(self, findings: Findings) -> list[AnyEvent]:
        """What was recalled and is over is taken back once: a node that comes to the job later
        knows nothing of it."""
        recalled = self._context.recalled
        for each in findings:
            over, job = ALL_CLEAR.get(each.kind), each.job or ""
            if over is not None and job in recalled:
                recalled[job] = {kind: at for kind, at in recalled[job].items() if kind is not over}
        return [Found(finding=each) for each in findings]

"""`Listeners`: the detectors by what they listen to; what they find comes back as events. Pure.

Made by `Watch`. One that meets a defect in a job's affairs costs that job what it finds, and the
others go on.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import ParamSpec

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

_Given = ParamSpec("_Given")


class Listeners:
    """The detectors by what they listen to, each list in their order."""

    def __init__(self, detectors: tuple[Detector, ...], context: Context) -> None:
        self._context = context
        self._heard = [(one.heard, one.hears) for one in detectors if isinstance(one, HearsNodes)]
        self._heard_of = [one.heard_of for one in detectors if isinstance(one, HearsJobs)]
        self._reported = [one.reported for one in detectors if isinstance(one, HearsExecutors)]
        self._looked = [one.looked for one in detectors if isinstance(one, LooksAtNodes)]
        self._looked_at = [one.looked_at for one in detectors if isinstance(one, LooksAtJobs)]

    def heard(self, beat: Heartbeat, job: JobSeen | None) -> list[AnyEvent]:
        """A node's heartbeat; `job` has ranks there, and is who a defect costs what is found of
        the node."""
        heard = [
            ask
            for ask, fields in self._heard
            if not fields or any(getattr(beat, field) for field in fields)
        ]
        if job is None:
            return self._asked(None, heard, beat, self._context)
        name = job.expected.job
        events = self._asked(name, heard, beat, self._context)
        events += self._asked(name, self._heard_of, beat, job, self._context)
        return events

    def reported(self, seen: Observed) -> list[AnyEvent]:
        return self._asked(seen.job, self._reported, seen, self._context)

    def looked(self) -> list[AnyEvent]:
        return self._asked(None, self._looked, self._context)

    def looked_at(self, job: JobSeen) -> list[AnyEvent]:
        return self._asked(job.expected.job, self._looked_at, job, self._context)

    def _asked(
        self,
        job: str | None,
        detectors: Iterable[Callable[_Given, Findings]],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> list[AnyEvent]:
        """What each of them finds. There is one guard around all, entered again where one met a
        defect: a heartbeat has no time for one around each."""
        events: list[AnyEvent] = []
        left, asked = iter(detectors), False
        while not asked:
            with nullcontext() if job is None else self._context.guard(job):
                for ask in left:
                    if findings := ask(*given, **named):
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

"""`Watch`: where the river of heartbeats ends and findings begin.

Called by the driver's node sessions (heartbeats, connections), its facts loop, and its ticks. It
knows the nodes, and how far jobs are, and asks the detectors of `registry` what they make of it.
All may be lost, but for what was told and has to be taken back: that is recalled. Must not act,
wait or read a clock.
"""

from collections.abc import Callable, Iterable, Set
from contextlib import nullcontext
from typing import TypeVar

import msgspec

from holdfast.driver.core.events import AnyEvent, Found, ProgressSeen, StepsRepeated
from holdfast.driver.watch import jobs, last_step_progress, neighbours, nodes, registry
from holdfast.driver.watch import pace as pacing
from holdfast.driver.watch.detector import (
    Context,
    Detector,
    Guard,
    HearsExecutors,
    HearsJobs,
    HearsNodes,
    LooksAtJobs,
    LooksAtNodes,
)
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import (
    Expectation,
    Findings,
    JobProgress,
    NodeSeen,
    Recalled,
    Settings,
)
from holdfast.protocol import messages
from holdfast.protocol.faults import ALL_CLEAR, Finding
from holdfast.protocol.messages import Heartbeat, Observed

_Asked = TypeVar("_Asked")


class Watch:
    """All detectors of one driver. `guard` is entered around what is done for one job."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        guard: Guard = nullcontext,
        detectors: Iterable[Detector] | None = None,
    ) -> None:
        self._context = Context(settings=settings or Settings(), guard=guard)
        self._began_s: float | None = None
        self._known: set[str] = set()  # jobs of which somebody may know something
        self._takings: last_step_progress.Takings = {}
        self._orders: dict[str, messages.WatchOrder] | None = None
        self.detectors = tuple(registry.detectors() if detectors is None else detectors)
        self._hear_nodes = [each for each in self.detectors if isinstance(each, HearsNodes)]
        self._hear_jobs = [each for each in self.detectors if isinstance(each, HearsJobs)]
        self._hear_executors = [each for each in self.detectors if isinstance(each, HearsExecutors)]
        self._look_at_nodes = [each for each in self.detectors if isinstance(each, LooksAtNodes)]
        self._look_at_jobs = [each for each in self.detectors if isinstance(each, LooksAtJobs)]

    # ------------------------------------------------------------ what the driver tells

    def expect(self, expected: Expectation) -> None:
        """This epoch of the job should run; the detectors start with it at the next tick."""
        self._known.add(expected.job)
        self._context.expected[expected.job] = expected
        self._rearrange()

    def recall(self, job: str, told: Recalled) -> None:
        """What an earlier driver told of the job and did not take back, before its nodes speak."""
        self._known.add(job)
        self._context.recalled[job] = told
        for each in self.detectors:
            each.recall(job, told)

    def forget(self, job: str) -> None:
        """The job has no ranks now."""
        self._context.expected.pop(job, None)
        self._rearrange()

    def keep(self, jobs: Set[str]) -> None:
        """These jobs have not ended. Of all others nothing is known any more."""
        over = self._known - jobs - self._context.expected.keys()
        self._known -= over
        for job in over:
            self._drop(job)

    def connected(self, node: str, process: str, now: float) -> None:
        self._put(nodes.connected(self._seen(node, now), process, now))

    def disconnected(self, node: str, process: str, now: float, why: str = "") -> None:
        seen = nodes.disconnected(self._seen(node, now), process, now, why)
        if seen.connected_s or seen.present is not None or node in self._context.seats:
            self._put(seen)
        else:  # neither the cluster nor a job knows it, and now it has gone
            self._context.nodes.pop(node, None)
            self._orders = None

    def gone(self, node: str, now: float) -> None:
        """What ran on the node is gone for good: whatever comes next begins its life anew."""
        if seen := self._context.nodes.get(node):
            self._put(NodeSeen(node=node, known_s=now, present=seen.present))

    def fact(self, node: str, present: bool, now: float) -> None:
        """The cluster's word on a node."""
        self._put(nodes.changed(self._seen(node, now), present=present))

    def stood_still(self, now: float) -> None:
        """Nobody listened for a while, in which `now` stood: who was heard before has to be heard
        again before anybody is accused, as after a start. What is known of jobs stays.
        """
        self._began_s = now
        for seen in self._context.nodes.values():
            self._put(nodes.unheard(seen, now))
        for name, job in self._context.jobs.items():
            pace = pacing.unseen(job.pace)
            self._context.jobs[name] = msgspec.structs.replace(job, pace=pace, unseen_s=now)

    # ------------------------------------------------------------ what the nodes tell

    def heard(self, beat: Heartbeat, now: float) -> list[AnyEvent]:
        """Take in a heartbeat; what it shows by being there."""
        context = self._begin(now)
        self._put(nodes.heard(self._seen(beat.node, now), beat, now))
        job = self._job_on(beat.node)
        name = None if job is None else job.expected.job
        found = self._asked(name, self._hear_nodes, lambda one: one.heard(beat, context))
        if job is not None:
            found += self._of_job(beat, job)
        return self._told(found)

    def _of_job(self, beat: Heartbeat, job: JobSeen) -> list[Finding]:
        name, context = job.expected.job, self._context
        found = self._asked(name, self._hear_jobs, lambda one: one.heard_of(beat, job, context))
        with context.guard(name):
            jobs.heard(job, beat, context.now)
        return found

    def observed(self, seen: Observed) -> list[AnyEvent]:
        """Take in an executor's report: how far ranks were that died, how far its store is with a
        step that is waited for, and what it shows of its job's checkpoints."""
        context = self._context
        if seen.job is not None:
            self._known.add(seen.job)
        if job := context.jobs.get(seen.job or ""):
            jobs.ended(job, seen, context.now)
        found = self._asked(seen.job, self._hear_executors, lambda one: one.reported(seen, context))
        saves = last_step_progress.judge(self._takings, seen, context.now)
        return [*self._told(found), *([saves] if saves else [])]

    # ------------------------------------------------------------ what shows by its absence

    def tick(self, now: float) -> list[AnyEvent]:
        """Look at what did not happen."""
        context = self._begin(now)
        context.sees_most = self._sees_most(now)
        found = self._asked(None, self._look_at_nodes, lambda one: one.looked(context))
        events = self._told(found)
        for job in list(context.running()):
            with context.guard(job.expected.job):
                events += self._stepped(job, now)
                events += self._told(self._looked_at(job.expected.job))
        return events

    def _stepped(self, job: JobSeen, now: float) -> list[AnyEvent]:
        name, context = job.expected.job, self._context
        context.jobs[name], steps = jobs.stepped(job, now, context.period_s)
        return [_progress(context.expected[name], each) for each in steps]

    def _looked_at(self, name: str) -> list[Finding]:
        job, context = self._context.jobs[name], self._context
        return self._asked(name, self._look_at_jobs, lambda one: one.looked_at(job, context))

    def instructions(self) -> dict[str, messages.WatchOrder]:
        """What each daemon should do, whole."""
        if self._orders is None:
            context = self._context
            wanted = tuple(context.expected.values())
            self._orders = neighbours.instructions(context.nodes, wanted, context.settings)
        return self._orders

    # ------------------------------------------------------------ what the pages ask

    def progress(self, job: str) -> JobProgress | None:
        """The job's progress; None while it has no ranks."""
        seen, context = self._context.jobs.get(job), self._context
        running = seen is not None and job in context.expected
        return jobs.progress(seen, context.now) if seen is not None and running else None

    def completed_step(self, job: str) -> int | None:
        """The last step that all ranks of the newest epoch have completed, where it is known."""
        seen = self._context.jobs.get(job)
        return seen.completed_step() if seen is not None and not jobs.relative(seen) else None

    def saved_steps(self, job: str) -> int:
        """How many steps of the newest epoch its script has saved, where ranks count them from
        their own start."""
        seen, wanted = self._context.jobs.get(job), self._context.expected.get(job)
        if seen is None or wanted is None or seen.expected.epoch != wanted.epoch:
            return 0
        return jobs.saved(seen)

    def unreadable(self, node: str) -> tuple[str, ...]:
        """What the node's daemon cannot read, as it said last."""
        return self._seen(node, self._context.now).unreadable

    # ------------------------------------------------------------ inside

    def _asked(
        self, job: str | None, detectors: Iterable[_Asked], ask: Callable[[_Asked], Findings]
    ) -> list[Finding]:
        """What each of them finds. One that meets a defect in a job's affairs costs that job what
        it finds, and the others go on."""
        found: list[Finding] = []
        left, asked = iter(detectors), False
        while not asked:
            with nullcontext() if job is None else self._context.guard(job):
                for each in left:
                    found += ask(each)
                asked = True
        return found

    def _told(self, findings: Iterable[Finding]) -> list[AnyEvent]:
        """What was recalled and is over is taken back once: a node that comes to the job later
        knows nothing of it."""
        told: list[AnyEvent] = []
        for finding in findings:
            over, known = ALL_CLEAR.get(finding.kind), self._context.recalled
            if over is not None and (job := finding.job or "") in known:
                known[job] = {kind: at for kind, at in known[job].items() if kind is not over}
            told.append(Found(finding=finding))
        return told

    def _seen(self, node: str, now: float) -> NodeSeen:
        return self._context.nodes.get(node) or NodeSeen(node=node, known_s=now)

    def _put(self, seen: NodeSeen) -> None:
        if seen.node not in self._context.nodes:
            self._orders = None
        self._context.nodes[seen.node] = seen

    def _job_on(self, node: str) -> JobSeen | None:
        expected = self._context.seats.get(node)
        return None if expected is None else self._context.jobs.get(expected.job)

    def _rearrange(self) -> None:
        wanted = self._context.expected.values()
        self._context.seats = {node: each for each in wanted for node in each.nodes}
        self._orders = None

    def _drop(self, job: str) -> None:
        for known in (self._context.jobs, self._context.recalled, self._takings):
            known.pop(job, None)
        for each in self.detectors:
            each.drop(job)

    def _begin(self, now: float) -> Context:
        """Start what is newly expected; the first call of all starts the grace."""
        self._context.now = now
        if self._began_s is None:
            self._began_s = now
        for name, expected in self._context.expected.items():
            before = self._context.jobs.get(name)
            if before is None or before.expected is not expected:
                with self._context.guard(name):
                    self._expect(before, expected, now)
        return self._context

    def _expect(self, before: JobSeen | None, expected: Expectation, now: float) -> None:
        if before is not None and before.expected.number != expected.number:
            self._drop(expected.job)  # it is another job of that name
            before = None
        self._context.jobs[expected.job] = jobs.expect(before, expected, now)
        for node in expected.nodes:
            self._put(self._seen(node, now))

    def _sees_most(self, now: float) -> bool:
        """After a start: once most of the nodes have reported, or a grace is over."""
        began_s = self._began_s if self._began_s is not None else now
        over = now - began_s > self._context.settings.start_grace_s
        return over or nodes.most_have_reported(self._context.nodes.values())


def _progress(expected: Expectation, told: jobs.Begun | jobs.Further) -> AnyEvent:
    job, epoch = expected.job, expected.epoch
    if isinstance(told, jobs.Begun):
        return StepsRepeated(job=job, epoch=epoch, since=told.saved, before=told.furthest)
    return ProgressSeen(
        job=job, epoch=epoch, step=told.step, before=told.before, stepless=told.stepless
    )

"""`Watch`: where the river of heartbeats ends and findings begin.

Called by the driver's node sessions (heartbeats, connections), its facts loop, and its ticks. It
knows the nodes, and how far jobs are, and asks the detectors of `registry` what they make of it.
All may be lost, but for what was told and has to be taken back: that is recalled. Must not act,
wait or read a clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import nullcontext

import msgspec

from holdfast.driver.core.events import AnyEvent, FasterSeen, ProgressSeen, StepsRepeated
from holdfast.driver.watch import curve, jobs, last_step_progress, rank_rows, registry
from holdfast.driver.watch import pace as pacing
from holdfast.driver.watch.detector import Context, Detector, Guard
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.lately import Lately
from holdfast.driver.watch.listeners import Listeners
from holdfast.driver.watch.model import Expectation, JobFigures, JobProgress, Recalled, Settings
from holdfast.driver.watch.neighbours import Orders
from holdfast.driver.watch.nodes import Nodes
from holdfast.driver.watch.rank_rows import Moment, RankRow
from holdfast.protocol.messages import Heartbeat, Observed


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
        self._nodes = Nodes(self._context)
        self.detectors = tuple(registry.detectors() if detectors is None else detectors)
        self._listeners = Listeners(self.detectors, self._context)
        self._began_s: float | None = None
        self._known: set[str] = set()  # jobs of which somebody may know something
        self._takings: last_step_progress.Takings = {}
        self._lately = Lately()

    # ------------------------------------------------------------ what the driver tells

    def expect(self, expected: Expectation) -> None:
        """This epoch of the job should run; the detectors start with it at the next tick."""
        self._known.add(expected.job)
        self._context.expected[expected.job] = expected
        self._nodes.seat()

    def recall(self, job: str, told: Recalled) -> None:
        """What an earlier driver told of the job and did not take back, before its nodes speak."""
        self._known.add(job)
        self._context.recalled[job] = told

    def forget(self, job: str) -> None:
        """The job has no ranks now."""
        self._context.expected.pop(job, None)
        self._nodes.seat()

    def keep(self, jobs: Set[str]) -> None:
        """These jobs have not ended. Of all others nothing is known any more."""
        over = self._known - jobs - self._context.expected.keys()
        self._known -= over
        for job in over:
            self._drop(job)

    def connected(self, node: str, process: str, now: float) -> None:
        self._nodes.connected(node, process, now)

    def disconnected(self, node: str, process: str, now: float, why: str = "") -> None:
        if self._nodes.disconnected(node, process, now, why):
            self._gone(node)

    def gone(self, node: str, now: float) -> None:
        """What ran on the node is gone for good: whatever comes next begins its life anew."""
        self._nodes.gone(node, now)
        self._gone(node)

    def fact(self, node: str, present: bool, now: float) -> None:
        """The cluster's word on a node."""
        self._nodes.fact(node, present, now)

    def stood_still(self, now: float) -> None:
        """Nobody listened for a while, in which `now` stood: who was heard before has to be heard
        again before anybody is accused, as after a start. What is known of jobs stays.
        """
        self._began_s = now
        self._nodes.unheard(now)
        for name, job in self._context.jobs.items():
            pace = pacing.unseen(job.pace)
            self._context.jobs[name] = msgspec.structs.replace(job, pace=pace, unheard_s=now)

    # ------------------------------------------------------------ what the nodes tell

    def heard(self, beat: Heartbeat, now: float) -> list[AnyEvent]:
        """Take in a heartbeat; what it shows by being there."""
        context = self._begin(now)
        self._nodes.heard(beat, now)
        job = self._job_on(beat.node)
        events = self._listeners.heard(beat, job)
        if job is not None:
            with context.guard(job.expected.job):
                self._lately.heard(job, beat, now)
                jobs.heard(job, beat, now)
        return events

    def observed(self, seen: Observed) -> list[AnyEvent]:
        """Take in an executor's report: how far ranks were that died, how far its store is with a
        step that is waited for, and what it shows of its job's checkpoints."""
        if seen.job is not None:
            self._known.add(seen.job)
        if job := self._context.jobs.get(seen.job or ""):
            jobs.ended(job, seen, self._context.now)
        events = self._listeners.reported(seen)
        saves = last_step_progress.judge(self._takings, seen, self._context.now)
        return [*events, saves] if saves else events

    # ------------------------------------------------------------ what shows by its absence

    def tick(self, now: float) -> list[AnyEvent]:
        """Look at what did not happen."""
        context = self._begin(now)
        context.sees_most = self._sees_most(now)
        events = self._listeners.looked()
        for name in [job.expected.job for job in context.running()]:
            with context.guard(name):
                events += self._stepped(name, now)
                self._nodes.stands(name, stands=self._stands(name, now))
                events += self._listeners.looked_at(context.jobs[name])
        return events

    def instructions(self) -> Orders:
        """What each daemon should do, whole."""
        return self._nodes.instructions()

    # ------------------------------------------------------------ what the pages ask

    def figures(self, job: str) -> JobFigures | None:
        """The job's progress; None while it has no ranks."""
        seen = self._running(job)
        return jobs.figures(seen) if seen else None

    def progress(self, job: str) -> JobProgress | None:
        """The same, with each of its ranks."""
        seen = self._running(job)
        return jobs.progress(seen, self._context.now) if seen else None

    def pids(self, job: str) -> Mapping[str, Mapping[int, int]]:
        """Of its ranks that were heard of, by node and rank."""
        seen = self._running(job)
        return jobs.pids(seen) if seen else {}

    def sampled(self, job: str) -> curve.Moment | None:
        """For its curves; None while it has no ranks, or none was heard of."""
        seen = self._running(job)
        return jobs.sampled(seen) if seen and seen.ranks else None

    def moment(self, job: str) -> tuple[Moment, Iterator[RankRow]] | None:
        """The job as it is now, and its ranks, each made when it is asked for; None while it has
        none. Whoever asks has clocks kept that show, when he asks again, where each rank's time
        went meanwhile."""
        seen, context = self._running(job), self._context
        if seen is None:
            return None
        verdicts = {
            rank: why for each in self.detectors for rank, why in each.verdicts(job).items()
        }
        spent = self._lately.asked(seen, context.now)
        return rank_rows.moment(seen, spent, verdicts, context.now)

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
        return self._nodes.seen(node, self._context.now).unreadable

    # ------------------------------------------------------------ inside

    def _running(self, job: str) -> JobSeen | None:
        """None while it has no ranks."""
        return self._context.jobs.get(job) if job in self._context.expected else None

    def _begin(self, now: float) -> Context:
        """Start what is newly expected; the first call of all starts the grace."""
        context = self._context
        context.now = now
        if self._began_s is None:
            self._began_s = now
        for name, expected in context.expected.items():
            before = context.jobs.get(name)
            if before is None or before.expected is not expected:
                with context.guard(name):
                    self._expect(before, expected, now)
        return context

    def _expect(self, before: JobSeen | None, expected: Expectation, now: float) -> None:
        if before is not None and before.expected.number != expected.number:
            self._drop(expected.job)  # it is another job of that name
            before = None
        self._context.jobs[expected.job] = jobs.expect(before, expected, now)
        self._nodes.know(expected.nodes, now)

    def _drop(self, job: str) -> None:
        for known in (self._context.jobs, self._context.recalled, self._takings):
            known.pop(job, None)
        self._lately.drop(job)
        self._nodes.stands(job, stands=False)
        for each in self.detectors:
            each.drop(job)

    def _gone(self, node: str) -> None:
        for each in self.detectors:
            each.gone(node)

    def _job_on(self, node: str) -> JobSeen | None:
        expected = self._context.seats.get(node)
        return None if expected is None else self._context.jobs.get(expected.job)

    def _stepped(self, name: str, now: float) -> list[AnyEvent]:
        context = self._context
        context.jobs[name], steps = jobs.stepped(context.jobs[name], now, context.period_s)
        if not steps:
            return []
        ages = {stage: now - at_s for stage, at_s in context.jobs[name].starts.items()}
        return [_progress(context.expected[name], each, ages) for each in steps]

    def _stands(self, name: str, now: float) -> bool:
        """Whether the job has stood still for so long that its nodes are to probe each other."""
        job = self._context.jobs[name]
        return jobs.quiet_s(job, now) > job.expected.hang_floor_s

    def _sees_most(self, now: float) -> bool:
        """After a start: once most of the nodes have reported, or a grace is over."""
        began_s = self._began_s if self._began_s is not None else now
        over = now - began_s > self._context.settings.start_grace_s
        return over or self._nodes.most_have_reported()


def _progress(expected: Expectation, told: jobs.Told, starts_s: dict[str, float]) -> AnyEvent:
    job, epoch = expected.job, expected.epoch
    if isinstance(told, jobs.Faster):
        return FasterSeen(job=job, epoch=epoch, best_step_s=told.best_step_s)
    if isinstance(told, jobs.Begun):
        return StepsRepeated(
            job=job, epoch=epoch, since=told.saved, before=told.furthest, starts_s=starts_s
        )
    return ProgressSeen(
        job=job,
        epoch=epoch,
        step=told.step,
        before=told.before,
        stepless=told.stepless,
        starts_s=starts_s,
    )

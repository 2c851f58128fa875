"""`Watch`: where the river of heartbeats ends and findings begin.

Called by the driver's node sessions (heartbeats, connections), its facts loop, and its ticks. It
folds all of it into the detectors beside this file, which are pure; it alone holds their states,
and all of them may be lost, but for what was told and has to be taken back: that is recalled. Must
not act, wait or read a clock.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, Unpack

import msgspec

from holdfast.driver.core.events import AnyEvent, Found, ProgressSeen, StepsRepeated
from holdfast.driver.watch import (
    agents,
    collective_diverged,
    collective_skipped,
    doubt,
    gpus,
    host_pressure,
    jobs,
    kernel,
    last_step_progress,
    links,
    logs,
    losses,
    neighbours,
    pair_unreachable,
    saves_skipped,
    silence,
    slow,
    standstill,
    store_failing,
    store_filling,
    store_not_shared,
    traffic,
)
from holdfast.driver.watch import pace as pacing
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import (
    NOTHING,
    Expectation,
    Findings,
    JobProgress,
    NodeSeen,
    Recalled,
    SeenChanges,
    Settings,
)
from holdfast.driver.watch.pair_unreachable import ProbeHistory
from holdfast.protocol import messages
from holdfast.protocol.faults import ALL_CLEAR, Finding, Kind
from holdfast.protocol.messages import Heartbeat, Observed
from holdfast.telemetry.analysis import hang

Guard = Callable[[str], AbstractContextManager[object]]
_Known = TypeVar("_Known")


class Watch:
    """All detectors of one driver. `fence` is entered around what is done for one job."""

    def __init__(self, settings: Settings | None = None, *, guard: Guard = nullcontext) -> None:
        self._settings = settings or Settings()
        self._guard = guard
        self._began_s: float | None = None
        self._now_s = 0.0
        self._nodes: dict[str, NodeSeen] = {}
        self._jobs: dict[str, JobSeen] = {}
        self._wanted: dict[str, Expectation] = {}
        self._on_node: dict[str, Expectation] = {}
        self._orders: dict[str, messages.WatchOrder] | None = None
        self._standing: frozenset[str] = frozenset()  # jobs whose nodes probe all others
        self._silence: silence.Reported = frozenset()
        self._kernel: kernel.Reported = frozenset()
        self._logs: logs.Reported = frozenset()
        self._links: dict[str, links.Links] = {}
        self._gpus: dict[str, gpus.Told] = {}
        self._pressure: host_pressure.Reported = frozenset()
        self._mismatch: dict[str, collective_skipped.Groups] = {}
        self._unlike: dict[str, collective_diverged.Unlike] = {}
        self._slow: dict[str, slow.Slow] = {}
        self._traffic: dict[str, traffic.Nodes] = {}
        self._losses: dict[str, losses.Losses] = {}
        self._savings: saves_skipped.Savings = {}
        self._stores: store_failing.Stores = {}
        self._sharing: store_not_shared.Sharing = {}
        self._takings: last_step_progress.Takings = {}
        self._agents: agents.Silent = {}
        self._filling: store_filling.Filling = frozenset()
        self._recalled: dict[str, Recalled] = {}
        self._apart = ProbeHistory(met=set())

    # ------------------------------------------------------------ what the driver tells

    def expect(self, expected: Expectation) -> None:
        """This epoch of the job should run; the detectors start with it at the next tick."""
        self._wanted[expected.job] = expected
        self._rearrange()

    def recall(self, job: str, told: Recalled) -> None:
        """What an earlier driver told of the job and did not take back, before its nodes speak."""
        self._recalled[job] = told
        if node := told.get(Kind.STORE_NOT_SHARED):
            self._sharing = {**self._sharing, job: frozenset({node})}

    def forget(self, job: str) -> None:
        """The job has no ranks now."""
        self._wanted.pop(job, None)
        self._rearrange()

    def keep(self, jobs: Set[str]) -> None:
        """These jobs have not ended. Of all others nothing is known any more."""
        kept = self._wanted.keys() | jobs
        self._jobs = _only(self._jobs, kept)
        self._mismatch = _only(self._mismatch, kept)
        self._unlike = _only(self._unlike, kept)
        self._slow = _only(self._slow, kept)
        self._traffic = _only(self._traffic, kept)
        self._losses = _only(self._losses, kept)
        self._savings = {at: each for at, each in self._savings.items() if each.job in kept}
        self._takings = _only(self._takings, kept)
        self._standing &= kept
        self._recalled = _only(self._recalled, kept)
        self._stores = _only(self._stores, kept)
        self._sharing = _only(self._sharing, kept)
        self._agents = _only(self._agents, kept)
        self._filling &= kept

    def connected(self, node: str, process: str, now: float) -> None:
        seen = self._seen(node, now)
        left = {name: at for name, at in seen.left_s.items() if name != process}
        why = {name: text for name, text in seen.why.items() if name != process}
        since = {**seen.connected_s, process: now}
        self._put(seen, left_s=left, connected_s=since, why=why)

    def disconnected(self, node: str, process: str, now: float, why: str = "") -> None:
        seen = self._seen(node, now)
        since = {name: at for name, at in seen.connected_s.items() if name != process}
        left = {**seen.left_s, process: now}
        if since or seen.present is not None or node in self._on_node:
            self._put(seen, connected_s=since, left_s=left, why={**seen.why, process: why})
        else:  # neither the cluster nor a job knows it, and now it has gone
            self._nodes.pop(node, None)
            self._orders = None

    def gone(self, node: str, now: float) -> None:
        """What ran on the node is gone for good: whatever comes next begins its life anew."""
        seen = self._nodes.get(node)
        if seen is not None:
            self._nodes[node] = NodeSeen(node=node, known_s=now, present=seen.present)

    def fact(self, node: str, present: bool, now: float) -> None:
        """The cluster's word on a node."""
        self._put(self._seen(node, now), present=present)

    def stood_still(self, now: float) -> None:
        """Nobody listened for a while, in which `now` stood: who was heard before has to be heard
        again before anybody is accused, as after a start. What is known of jobs stays.
        """
        self._began_s = now
        for seen in self._nodes.values():
            connected = dict.fromkeys(seen.connected_s, now)
            left = dict.fromkeys(seen.left_s, now)
            self._put(seen, known_s=now, heard_s=None, connected_s=connected, left_s=left)
        for name, job in self._jobs.items():
            pace = pacing.unseen(job.pace)
            self._jobs[name] = msgspec.structs.replace(job, pace=pace, unseen_s=now)

    # ------------------------------------------------------------ what the nodes tell

    def heard(self, beat: Heartbeat, now: float) -> list[AnyEvent]:
        """Take in a heartbeat; what it shows by being there."""
        self._begin(now)
        seen, alive = self._seen(beat.node, now), beat.executor_alive
        self._put(
            seen, heard_s=now, probes=beat.probes, executor_alive=alive, unreadable=beat.unreadable
        )
        if beat.probes:
            pair_unreachable.heard(self._apart, beat)
        self._kernel, found = kernel.judge(self._kernel, beat)
        self._pressure, short = host_pressure.judge(self._pressure, beat, self._settings)
        down, hits = self._of_links(beat, now), self._of_logs(beat)
        broken = self._of_gpus(beat, now)
        told = (*found, *short, *down, *hits, *broken, *self._of_job(beat, now))
        return [_found(each) for each in told]

    def _of_gpus(self, beat: Heartbeat, now: float) -> Findings:
        before = self._gpus.get(beat.node, {})
        if not (beat.gpus or before):
            return ()
        self._gpus[beat.node], broken = gpus.judge(before, beat, self._settings, now)
        return broken

    def _of_links(self, beat: Heartbeat, now: float) -> Findings:
        before = self._links.get(beat.node, {})
        if not (beat.nics or before):
            return ()
        self._links[beat.node], down = links.judge(before, beat, self._settings, now)
        return down

    def _of_logs(self, beat: Heartbeat) -> Findings:
        if not (beat.logs or self._logs):
            return ()
        self._logs, hits = logs.judge(self._logs, beat, self._on_node)
        return hits

    def observed(self, seen: Observed) -> list[AnyEvent]:
        """Take in an executor's report: how far ranks were that died, how far its store is with a
        step that is waited for, and what it shows of its job's checkpoints."""
        if job := self._jobs.get(seen.job or ""):
            jobs.ended(job, seen, self._now_s)
        recalled = self._recalled.get(seen.job or "", NOTHING)
        self._stores, failing = store_failing.judge(self._stores, seen, recalled)
        self._savings, skipped = saves_skipped.judge(self._savings, seen, recalled)
        self._filling, fills = store_filling.judge(self._filling, seen, recalled)
        found = (*failing, *skipped, *fills)
        self._sharing, shared = store_not_shared.judge(self._sharing, seen)
        for each in found:
            self._take_back(each)
        saves = last_step_progress.judge(self._takings, seen, self._now_s)
        self._agents, silent = agents.judge(self._agents, seen)
        return [*map(_found, (*found, *shared, *silent)), *([saves] if saves else [])]

    def _take_back(self, finding: Finding) -> None:
        """What was recalled is over: a node that comes to the job later knows nothing of it."""
        over, job = ALL_CLEAR.get(finding.kind), finding.job or ""
        if over is not None and job in self._recalled:
            rest = {kind: node for kind, node in self._recalled[job].items() if kind is not over}
            self._recalled[job] = rest

    def _of_job(self, beat: Heartbeat, now: float) -> Findings:
        found: Findings = ()
        expected = self._on_node.get(beat.node)
        if expected is not None and expected.job in self._jobs:
            with self._guard(expected.job):
                found = self._compared(beat, expected, now)
        return found

    def _compared(self, beat: Heartbeat, expected: Expectation, now: float) -> Findings:
        self._timed(beat, expected)
        jobs.heard(self._jobs[expected.job], beat, now)
        before = self._mismatch.get(expected.job, collective_skipped.Groups())
        self._mismatch[expected.job], skipped = collective_skipped.judge(before, beat, expected)
        known = self._unlike.get(expected.job, collective_diverged.Unlike())
        self._unlike[expected.job], odd = collective_diverged.judge(known, beat, expected)
        flows = self._traffic.setdefault(expected.job, {})
        lost = self._losses.get(expected.job, losses.Losses())
        self._losses[expected.job], jumps = losses.judge(lost, beat, expected)
        return (*skipped, *odd, *jumps, *traffic.judge(flows, beat, expected, now))

    def _timed(self, beat: Heartbeat, expected: Expectation) -> None:
        name = expected.job
        known, told = self._slow.get(name, slow.Slow()), self._recalled.get(name, NOTHING)
        self._slow[name] = slow.fold(known, beat, self._jobs[name].ranks, expected, told)

    # ------------------------------------------------------------ what shows by its absence

    def tick(self, now: float) -> list[AnyEvent]:
        """Look at what did not happen. Nobody is accused before most nodes have reported."""
        self._begin(now)
        found: list[AnyEvent] = []
        if self._may_judge(now):
            told, findings = silence.judge(
                self._silence, self._nodes, self._around(now), self._settings, now
            )
            self._silence = told
            found += map(_found, findings)
        for name in [name for name in self._wanted if name in self._jobs]:
            with self._guard(name):
                found += self._looked_at(name, now)
        return found

    def _looked_at(self, name: str, now: float) -> Iterator[AnyEvent]:
        job, steps = jobs.stepped(self._jobs[name], now, self._period_s())
        self._jobs[name] = job  # what is told now is not told again, whatever is met below
        yield from (_progress(self._wanted[name], each) for each in steps)
        if self._may_judge(now):
            yield from map(_found, self._cannot_meet(job, now))
            yield from map(_found, self._holds_up(job, now))
        self._jobs[name], findings = self._stands_still(job, now)
        yield from map(_found, (*findings, *self._went_on(job)))

    def instructions(self) -> dict[str, messages.WatchOrder]:
        """What each daemon should do, whole."""
        if self._orders is None:
            wanted = tuple(self._wanted.values())
            self._orders = neighbours.instructions(
                self._nodes.keys(), wanted, self._settings, self._standing
            )
        return self._orders

    # ------------------------------------------------------------ what the pages ask

    def progress(self, job: str) -> JobProgress | None:
        """The job's progress; None while it has no ranks."""
        seen = self._jobs.get(job)
        return (
            jobs.progress(seen, self._now_s) if seen is not None and job in self._wanted else None
        )

    def completed_step(self, job: str) -> int | None:
        """The last step that all ranks of the newest epoch have completed, where it is known."""
        seen = self._jobs.get(job)
        return seen.completed_step() if seen is not None and not jobs.relative(seen) else None

    def unreadable(self, node: str) -> tuple[str, ...]:
        """What the node's daemon cannot read, as it said last."""
        return self._seen(node, self._now_s).unreadable

    def saved_steps(self, job: str) -> int:
        """How many steps of the newest epoch its script has saved, where ranks count them from
        their own start."""
        seen, wanted = self._jobs.get(job), self._wanted.get(job)
        if seen is None or wanted is None or seen.expected.epoch != wanted.epoch:
            return 0
        return jobs.saved(seen)

    # ------------------------------------------------------------ inside

    def _seen(self, node: str, now: float) -> NodeSeen:
        return self._nodes.get(node) or NodeSeen(node=node, known_s=now)

    def _rearrange(self) -> None:
        self._on_node = {node: each for each in self._wanted.values() for node in each.nodes}
        self._orders = None

    def _put(self, seen: NodeSeen, **changes: Unpack[SeenChanges]) -> None:
        if seen.node not in self._nodes:
            self._orders = None
        self._nodes[seen.node] = msgspec.structs.replace(seen, **changes)

    def _begin(self, now: float) -> None:
        """Start what is newly expected; the first call of all starts the grace."""
        self._now_s = now
        if self._began_s is None:
            self._began_s = now
        for name, expected in self._wanted.items():
            before = self._jobs.get(name)
            if before is None or before.expected is not expected:
                with self._guard(name):
                    self._expect(before, expected, now)

    def _expect(self, before: JobSeen | None, expected: Expectation, now: float) -> None:
        name = expected.job
        if before is not None and before.expected.number != expected.number:
            self._recalled.pop(name, None)
            self._stores = {job: seen for job, seen in self._stores.items() if job != name}
            self._filling -= {name}
            self._sharing = {job: seen for job, seen in self._sharing.items() if job != name}
        self._jobs[name] = jobs.expect(before, expected, now)
        for node in expected.nodes:
            self._put(self._seen(node, now))

    def _period_s(self) -> float:
        return neighbours.period_s(len(self._nodes), self._settings)

    def _may_judge(self, now: float) -> bool:
        """After a start: once most of the nodes have reported, or a grace is over."""
        began_s = self._began_s if self._began_s is not None else now
        known = [seen for seen in self._nodes.values() if seen.present is not False]
        reported = sum(1 for seen in known if seen.heard_s is not None)
        return 2 * reported > len(known) or now - began_s > self._settings.start_grace_s

    def _around(self, now: float) -> silence.Around:
        period_s = self._period_s()
        late_s = self._settings.missed_periods * period_s
        silent = [s for s in self._nodes.values() if s.heard_s and now - s.heard_s > late_s]
        return silence.Around(
            period_s=period_s,
            seated=frozenset(self._on_node),
            held_up=self._held_up(now) if silent else {},
        )

    def _held_up(self, now: float) -> dict[str, float]:
        """Nodes whose ranks the others wait for, and for how long nothing has moved."""
        held_up: dict[str, float] = {}
        for name in [name for name in self._wanted if name in self._jobs]:
            with self._guard(name):
                held_up.update(_held_up(self._jobs[name], now))
        return held_up

    def _cannot_meet(self, job: JobSeen, now: float) -> Findings:
        quiet_s = jobs.quiet_s(job, now)
        self._probe_more(job.expected, stands=quiet_s > job.expected.hang_floor_s)
        fresh_s = self._settings.missed_periods * self._period_s() + 0.25
        self._apart, findings = pair_unreachable.judge(
            self._apart, job.expected, self._nodes, quiet_s, fresh_s, now
        )
        return findings

    def _probe_more(self, expected: Expectation, *, stands: bool) -> None:
        """While the job stands still."""
        if stands != (expected.job in self._standing):
            self._standing ^= {expected.job}
            self._orders = None

    def _holds_up(self, job: JobSeen, now: float) -> Findings:
        timed = self._slow.get(job.expected.job)
        if timed is None:
            return ()
        findings = slow.judge(timed, job.ranks, job.expected, self._period_s(), now)
        for each in findings:
            self._take_back(each)
        return findings

    def _stands_still(self, job: JobSeen, now: float) -> tuple[JobSeen, Findings]:
        pace, unit = jobs.tempo(job)
        if jobs.quiet_s(job, now) <= standstill.QUIET_S:
            still, findings = standstill.ended(job.still, job.expected, pace)
            return msgspec.structs.replace(job, still=still), findings
        ranks = jobs.fresh(job, now)
        still, findings = standstill.judge(
            job.still,
            job.expected,
            ranks,
            pace,
            jobs.cpu(job, now),
            self._settings,
            now,
            unit,
            self._odd(job),
        )
        marked = doubt.marked(findings, ranks, len(job.places), job.jumps, now)
        return msgspec.structs.replace(job, still=still), marked

    def _went_on(self, job: JobSeen) -> Findings:
        name, (pace, unit) = job.expected.job, jobs.tempo(job)
        known = self._unlike.get(name, collective_diverged.Unlike())
        self._unlike[name], findings = collective_diverged.went_on(known, job.expected, pace, unit)
        return findings

    def _odd(self, job: JobSeen) -> collective_diverged.Odd | None:
        """What was found of its attempt: `expect` may have come since, and heartbeats not."""
        known = self._unlike.get(job.expected.job, collective_diverged.Unlike())
        return known.odd if known.epoch == job.expected.epoch else None


def _only(known: Mapping[str, _Known], jobs: Set[str]) -> dict[str, _Known]:
    return {job: each for job, each in known.items() if job in jobs}


def _held_up(job: JobSeen, now: float) -> dict[str, float]:
    """The node of the rank that the others of the job wait for, and for how long nothing moves."""
    quiet_s = jobs.quiet_s(job, now)
    if quiet_s <= standstill.QUIET_S:
        return {}
    ranks = jobs.fresh(job, now)
    rank = hang.culprit(ranks, job.places.keys() - ranks.keys()).rank
    return {} if rank is None else {job.places[rank]: quiet_s}


def _progress(expected: Expectation, told: jobs.Begun | jobs.Further) -> AnyEvent:
    job, epoch = expected.job, expected.epoch
    if isinstance(told, jobs.Begun):
        return StepsRepeated(job=job, epoch=epoch, since=told.saved, before=told.furthest)
    return ProgressSeen(
        job=job, epoch=epoch, step=told.step, before=told.before, stepless=told.stepless
    )


def _found(finding: Finding) -> AnyEvent:
    return Found(finding=finding)

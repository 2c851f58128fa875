"""What flows into the driver by itself: facts of the cluster, and what the detectors conclude.

Run by `driver.main` beside the loop. Shows the detectors each committed state, the clock and the
facts, and turns their findings into events. Must not judge: that is theirs, or the core's.
"""

import asyncio
from collections.abc import Callable

from holdfast.driver.adapters.websocket.daemons import Daemons
from holdfast.driver.core.events import (
    AnyEvent,
    ExecutorEnded,
    ExecutorEnding,
    ExecutorLingers,
    ExecutorStarved,
    Found,
    NodeAppeared,
    NodeFits,
    NodeVanished,
    RanksLeft,
    Reached,
)
from holdfast.driver.core.faults import bad_loss, incidents
from holdfast.driver.core.state.model import Incident, Job, State
from holdfast.driver.follow.guard import Guard
from holdfast.driver.follow.patience import patience_of
from holdfast.driver.ports import AnyFact, Cluster, Ended, Ending, Fact, Fits, Lingering, Starved
from holdfast.driver.watch import Expectation, Watch
from holdfast.driver.watch.model import evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Seat


class Feed:
    """Keeps the detectors and the core in step."""

    def __init__(
        self,
        watch: Watch,
        *,
        guard: Guard,
        daemons: Daemons,
        emit: Callable[[AnyEvent], None],
        now: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._guard = guard
        self._daemons = daemons
        self._emit = emit
        self._now = now
        self._problems: dict[str, Fact] = {}  # those that stand, by node, as they were told
        self._braked = False
        self._recalled = False
        self._expected: dict[str, tuple[int, tuple[Seat, ...], bool]] = {}
        self._lasting: set[str] = set()  # jobs that have not ended
        self._parked: set[str] = set()

    def follow(self, state: State) -> None:
        """Have the detectors expect what the committed state says should run, and no more."""
        self._guard.keep(state.jobs.keys())
        if not self._recalled:
            self._recalled = True
            self._recall(state)
        self._begin_anew(state)
        seated = {
            name: (job.epoch, job.seats, bad_loss.replayed(job))
            for name, job in state.jobs.items()
            if job.seats
        }
        for name in self._expected.keys() - seated.keys():
            with self._guard.around(name):
                self._tell_reached(name)
            with self._guard.around(name):
                self._watch.forget(name)
        for name, seats in seated.items():
            if self._expected.get(name) != seats:
                with self._guard.around(name):
                    self._watch.expect(expectation(state.jobs[name]))
        self._expected = seated
        lasting = {name for name, job in state.jobs.items() if not job.finished}
        if lasting != self._lasting:
            self._lasting = lasting
            self._watch.keep(lasting)
        if self._braked and not state.brake.on:
            for fact in self._problems.values():  # an eviction that was held back is due now
                if fact.conclusive:
                    self._emit(Found(finding=_finding(fact)))
        self._braked = state.brake.on

    def _tell_reached(self, job: str) -> None:
        """Once its ranks are not followed nobody sees it any more."""
        if (live := self._watch.figures(job)) is not None:
            reached = Reached(step=live.step, relative=live.relative)
            self._emit(RanksLeft(job=job, reached=reached))

    def _recall(self, state: State) -> None:
        """What was told by an earlier driver is taken back by this one."""
        for name, job in state.jobs.items():
            with self._guard.around(name):
                self._recall_job(state, job)

    def _recall_job(self, state: State, job: Job) -> None:
        told = {} if job.finished else incidents.standing(state.incidents.values(), job)
        if told:
            self._watch.recall(job.name, {kind: _who(job, at) for kind, at in told.items()})

    def _begin_anew(self, state: State) -> None:
        """Of a job that was parked and is so no more: nobody listened to what was found of it."""
        parked = {name for name, job in state.jobs.items() if job.parked}
        for name in self._parked - parked:
            with self._guard.around(name):
                self._watch.forget(name)
                self._watch.keep(self._lasting - {name})
                self._expected.pop(name, None)
                if name in state.jobs:
                    self._recall_job(state, state.jobs[name])
        self._parked = parked

    async def tick(self, period_s: float) -> None:
        """For ever: what shows by its absence shows here. Daemons hear what is new to them."""
        while True:
            for event in self._watch.tick(self._now()):
                self._emit(event)
            self._daemons.push(self._watch.instructions())
            await asyncio.sleep(period_s)

    async def facts(self, cluster: Cluster) -> None:
        """For ever: every fact of the cluster, to the detectors and to the core."""
        async for fact in cluster.facts():
            if isinstance(fact, Fact):
                self._watch.fact(fact.node, fact.present, self._now())
            self._emit(_event_of(fact))
            if isinstance(fact, Fact):
                self._tell_problem(fact)

    def _tell_problem(self, fact: Fact) -> None:
        """Once for each time that others find something wrong with a node."""
        known = self._problems.pop(fact.node, None)
        if not fact.problem:
            return
        self._problems[fact.node] = fact
        if known is None or known.problem != fact.problem:
            self._emit(Found(finding=_finding(fact)))


def _who(job: Job, told: Incident) -> str | None:
    """The node that can take it back: the one of which it was told, if ranks are still there."""
    return told.node if told.node in job.places else job.host


def _finding(fact: Fact) -> Finding:
    return Finding(
        kind=Kind.NODE_PROBLEM,
        weight=Weight.CONCLUSIVE if fact.conclusive else Weight.SUSPECT,
        node=fact.node,
        summary=f"the cluster says of {fact.node}: {fact.problem}",
        evidence=(evidence("cluster", f"{fact.node}: {fact.problem}"),),
    )


def _event_of(fact: AnyFact) -> AnyEvent:
    if isinstance(fact, Ended):
        return ExecutorEnded(job=fact.job, node=fact.node, why=fact.why)
    if isinstance(fact, Fits):
        return NodeFits(job=fact.job, node=fact.node)
    if isinstance(fact, Starved):
        return ExecutorStarved(job=fact.job, node=fact.node, limit_bytes=fact.limit_bytes)
    if isinstance(fact, Lingering):
        return ExecutorLingers(job=fact.job, node=fact.node, why=fact.why, stray=fact.stray)
    if isinstance(fact, Ending):
        return ExecutorEnding(
            job=fact.job,
            node=fact.node,
            why=fact.why,
            within_s=fact.within_s,
            evicted=fact.evicted,
        )
    if not fact.present:
        return NodeVanished(node=fact.node, why=fact.why)
    return NodeAppeared(
        node=fact.node,
        rack=fact.rack,
        machine=fact.machine,
        closed=fact.closed,
        unmarked=not fact.distrusted,
        notice=fact.notice,
        within_s=fact.within_s,
    )


def expectation(job: Job) -> Expectation:
    return Expectation(
        job=job.name,
        number=job.number,
        submitted_s=job.submitted_s,
        epoch=job.epoch,
        version=job.running.number,
        seats=job.seats,
        topology=job.layout.topology,
        hang_floor_s=job.plan.hang_floor_s,
        first_step_s=job.plan.first_step_s,
        pause_max_s=job.plan.pause_max_s,
        stuck_max_s=job.plan.stuck_max_s,
        spots=patience_of(job.facts, job.since_s),
        pauses=job.pauses,
        loss_again=bad_loss.replayed(job),
        start=job.restore.step if job.restore is not None else 0,
        best_step=job.best_step,
        best_step_s=job.best_step_s,
        log_rules=job.plan.log_rules,
    )

"""What a detector is: what it can listen to, and what it is given. Pure.

A detector is an object with the state of one driver's time; it may be lost. It has those methods of
the protocols here that it needs, and is called for nothing else: what listens to no heartbeat costs
none. To hear a heartbeat may cost what its ranks cost, whatever the size of cluster and job, and
what is kept of a rank is bounded (`tests/watch/test_watch_memory.py` counts it). What more than one
of them asks is in the `Context`, and never kept. All are named in `registry`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.driver.watch import neighbours
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import (
    NOTHING,
    Expectation,
    Findings,
    NodeSeen,
    Recalled,
    Settings,
)
from holdfast.protocol.messages import Heartbeat, Observed

Guard = Callable[[str], AbstractContextManager[object]]
"""Entered around what is done for the job of that name: a defect met there costs that job alone."""


class Context(msgspec.Struct, kw_only=True):
    """What is around, as `Watch` knows it now. Detectors read it, and write nothing in it."""

    settings: Settings
    guard: Guard = nullcontext
    now: float = 0.0
    sees_most: bool = False
    """At a tick: that most nodes have reported since the driver began to listen, or had the time
    to. Nobody is accused of silence before."""
    nodes: dict[str, NodeSeen] = {}
    jobs: dict[str, JobSeen] = {}
    expected: dict[str, Expectation] = {}  # by job, of those whose ranks should run
    seats: dict[str, Expectation] = {}  # by node that has ranks
    recalled: dict[str, Recalled] = {}  # by job

    @property
    def period_s(self) -> float:
        """Between two heartbeats of a node."""
        return neighbours.period_s(len(self.nodes), self.settings)

    @property
    def late_s(self) -> float:
        """So old a heartbeat may be before its node is silent; but for what it takes to arrive."""
        return self.settings.missed_periods * self.period_s

    def running(self) -> Iterator[JobSeen]:
        """The jobs whose ranks should run."""
        known = (self.jobs.get(name) for name in self.expected)
        return (job for job in known if job is not None)

    def recalled_of(self, job: str) -> Recalled:
        """What an earlier driver told of the job, and nobody has taken back."""
        return self.recalled.get(job, NOTHING)


class Detector:
    """What each detector has. Methods that do nothing here are for those that keep such things."""

    hears: tuple[str, ...] = ()
    """Fields of a heartbeat: where all of them are empty, `heard` is not called; none: always."""

    def verdicts(self, job: str) -> Mapping[int, str]:
        """What it holds against ranks of the job now, in a sentence each, for the pages."""
        return {}

    def drop(self, job: str) -> None:
        """The job is over: nothing is to be known of it any more."""

    def gone(self, node: str) -> None:
        """The node is gone for good: what comes next under its name is another one."""


@runtime_checkable
class HearsNodes(Protocol):
    """Listens to the heartbeat of each node."""

    def heard(self, beat: Heartbeat, context: Context) -> Findings: ...


@runtime_checkable
class HearsJobs(Protocol):
    """Listens to heartbeats of nodes that have ranks of a job; `job.ranks` are as before it."""

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings: ...


@runtime_checkable
class HearsExecutors(Protocol):
    """Listens to the report of each executor."""

    def reported(self, seen: Observed, context: Context) -> Findings: ...


@runtime_checkable
class LooksAtNodes(Protocol):
    """Looks at all nodes in each tick, for what did not happen."""

    def looked(self, context: Context) -> Findings: ...


@runtime_checkable
class LooksAtJobs(Protocol):
    """Looks at each job whose ranks should run in each tick, for what did not happen."""

    def looked_at(self, job: JobSeen, context: Context) -> Findings: ...

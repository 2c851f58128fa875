"""What the detectors are told to expect, what they show, and what they know of each node. Pure."""

from collections.abc import Mapping
from typing import TypedDict

import msgspec

from holdfast.protocol.faults import Evidence, Finding, Kind, Pause, Weight
from holdfast.protocol.messages import Probe, RankProgress, Seat
from holdfast.protocol.topology import Topology

RELATIVE = "step numbers"
"""A rank that says so counts its steps from its own start: no earlier epoch compares with them."""
STUCK_FLOORS = 3
"""Floors that a rank may be stuck before it is acted on, where the job does not say: 15 s."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """A job's epoch: where its ranks sit, and how long it may stand still."""

    job: str
    number: int = 0  # of the job itself: a later one may have its name
    submitted_s: float = 0.0  # when it was, on the driver's clock
    epoch: int
    version: int = 1  # of the job, which its ranks run
    seats: tuple[Seat, ...]
    topology: Topology = Topology()
    hang_floor_s: float = 5.0
    first_step_s: float = 600.0
    pause_max_s: float = 600.0
    stuck_max_s: float | None = None  # None: STUCK_FLOORS
    spots: dict[str, int] = {}  # restarts so far, by where the job stood still
    pauses: dict[str, Pause] = {}  # that ended by themselves, as earlier drivers told, by line
    loss_again: bool = False  # it is to be seen whether a loss that was no number is so again
    start: int = 0  # the step of what its ranks began from
    best_step: int | None = None  # highest step that any earlier epoch completed
    best_step_s: float | None = None  # median time of its fastest steps, as an earlier driver told
    log_rules: tuple[tuple[str, str], ...] = ()  # (pattern, "report", "restart" or "suspect")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes with seats, each once, in rank order."""
        return tuple(dict.fromkeys(seat.node for seat in self.seats))

    @property
    def stuck_s(self) -> float:
        """How long nothing of a rank may move."""
        floors_s = STUCK_FLOORS * self.hang_floor_s
        return floors_s if self.stuck_max_s is None else self.stuck_max_s

    def node_of(self) -> dict[int, str]:
        return {seat.rank: seat.node for seat in self.seats}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How patient the detectors are. Each default says why."""

    heartbeat_period_s: float = 0.5  # a silent node is found within about four of these
    heartbeats_per_s: float = 2_000.0  # bound on the load: about 90 us of a core each, measured
    missed_periods: float = 2.5  # heartbeats missing for so long are silence
    probe_silent_s: float = 1.0  # four probes of a neighbour without any answer
    link_back_s: float = 5.0  # a link that flaps is down for three seconds (faults.md, 17)
    start_grace_s: float = 10.0  # after a driver's start, unless a quorum has reported before
    never_heard_s: float = 5.0  # a new daemon needs about a second to come
    neighbours: int = 2  # probes to the next nodes of the ring: each node has two witnesses
    hang_periods: float = 3.0  # median steps that a standstill has to last (design.md)
    flaps: int = 2  # link downs within the window that make the node a suspect (faults.md, 17)
    flap_window_s: float = 300.0
    pressure: float = 0.95  # share of memory or disk used that is worth saying
    gpu_hot_s: float = 10.0  # for which a GPU is slowed by heat before it is said (faults.md, 31)


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of one node; times are the driver's."""

    node: str
    known_s: float
    heard_s: float | None = None  # last heartbeat
    probes: tuple[Probe, ...] = ()  # of that
    executor_alive: bool = False  # as that told
    connected_s: dict[str, float] = {}  # by process, while it is connected: since when
    left_s: dict[str, float] = {}  # by process, while it is not: since when
    present: bool | None = None  # the cluster's word
    why: dict[str, str] = {}  # why a connection ended
    unreadable: tuple[str, ...] = ()  # what its daemon cannot read, as it said last


class SeenChanges(TypedDict, total=False):
    """What may be replaced of a node that was seen, with its types: so mypy checks each write."""

    known_s: float
    heard_s: float | None
    probes: tuple[Probe, ...]
    executor_alive: bool
    connected_s: dict[str, float]
    left_s: dict[str, float]
    present: bool | None
    why: dict[str, str]
    unreadable: tuple[str, ...]


class RankView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rank for the pages."""

    rank: int
    node: str
    step: int
    pid: int = 0  # on its node
    phase: str = ""
    loss: float | None = None
    process: str = ""
    still_s: float = 0.0
    hooks: bool = False


class JobFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a job is as a whole: `JobProgress` without its ranks, which take long to tell."""

    job: str
    step: int
    best_step: int
    relative: bool = False  # ranks count steps from their own start: no two attempts compare
    loss: float | None = None
    tokens_per_s: float | None = None
    step_s: float | None = None  # median
    best_step_s: float | None = None  # least median so far


class JobProgress(JobFigures, frozen=True, kw_only=True, omit_defaults=True):
    """How far a job is. `step` is the last one that all ranks have completed."""

    ranks: tuple[RankView, ...] = ()


def evidence(source: str, text: str, **data: str | int | float | bool | None) -> Evidence:
    return Evidence(source=source, text=text, data=data)


def goes_on(expected: Expectation, step: int, summary: str) -> Finding:
    """The all-clear for what was said of a job that stood still."""
    return Finding(
        kind=Kind.GOES_ON,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        step=step,
        summary=summary,
    )


Findings = tuple[Finding, ...]
Recalled = Mapping[Kind, str | None]
"""What an earlier driver told of a job and did not take back: the node of which it was told."""
NOTHING: Recalled = {}
Ranks = dict[int, RankProgress]

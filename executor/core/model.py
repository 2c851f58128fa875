"""The state of an executor: what it was told, what runs, what it knows. Immutable."""

import sys

import msgspec

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport
from holdfast.diagnostics.registry import TESTS
from holdfast.executor.core.fence import Fence
from holdfast.protocol.messages import (
    Desired,
    DiagnosticOrder,
    DiagnosticResult,
    RankStatus,
    Rendezvous,
    Seat,
    Task,
)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was started for one epoch of a job, and may have processes left."""

    job: str
    epoch: int
    seats: tuple[Seat, ...] = ()  # of this node; empty until ranks are started
    program: tuple[str, ...] = ()  # the `warm_key` of what they run
    ranks: dict[int, RankStatus] = {}
    exits: int = 0
    rendezvous_asked: bool = False
    rendezvous: Rendezvous | None = None
    rendezvous_served: bool = False
    lacks: str = ""  # what its rendezvous waits for, and what to do
    meeting: str | None = None  # why the Redis where its ranks meet is silent; None: nobody looked


class Care(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint agent: last order, last report, and until when quiet waits for it."""

    order: AgentOrder | None = None
    report: AgentReport | None = None
    wait_until: float = 0.0
    absent: str = ""  # why there is none
    final: bool = False


class Exam(msgspec.Struct, frozen=True, kw_only=True):
    """Diagnostics: what runs now, and what was measured for the orders that still stand."""

    running: DiagnosticOrder | None = None
    results: tuple[DiagnosticResult, ...] = ()


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that did not end within their grace, by the epoch that ended them."""

    epoch: int = 0
    ranks: tuple[int, ...] = ()


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an executor knows."""

    node: str
    incarnation: str
    fence: Fence = Fence()
    desired: Desired | None = None
    run: Run | None = None
    clearing_s: float | None = None  # grace of the Clear under way; None: none is
    killed: Killed = Killed()
    rests: tuple[str, ...] | None = None  # job and program of ranks that may rest; None: none do
    warmed: tuple[str, ...] | None = None  # what the last Warm was for
    launcher: str = "cold"
    care: Care = Care()
    exam: Exam = Exam()


def own_seats(state: State) -> tuple[Seat, ...]:
    """The seats of the desired state, in rank order."""
    seats = state.desired.seats if state.desired else ()
    return tuple(sorted(seats, key=lambda seat: seat.rank))


TESTING = Task(
    command=(
        sys.executable,
        "-c",
        f"import {', '.join(f'holdfast.diagnostics.probes.{name}' for name in TESTS)}",
    ),
    workdir="/",
)
"""What a launcher is warm for on a node that runs tests and has had no task: torch is loaded once,
not once a test, and partners begin at the same time."""


def warm_key(task: Task) -> tuple[str, ...]:
    """Equal for tasks that one launcher is warm for."""
    names = sorted((task.default_env | task.env).items())
    return (*task.command, task.workdir, *(f"{name}={value}" for name, value in names))

"""Which fields of a value a decision may replace, with their types: so mypy checks each write.

Used by `Turn`. A test holds each table to its value. What is missing is never changed, or has a
function of its own: a job's phase has `Turn.move`, its layout `Turn.places`, the cause of an
incident and what was lost to it `incidents` and `loss`. A node has one for each of its facets and
needs no table.
"""

from typing import TypedDict

from holdfast.driver.core.events import Reached
from holdfast.driver.core.state.fact import Fact, Table
from holdfast.driver.core.state.model import (
    Attempt,
    Failure,
    Fault,
    Phase,
    Saving,
    Tally,
    Timer,
    Tried,
    Unfit,
    Wanted,
)
from holdfast.driver.core.state.node import Backoff, Exited
from holdfast.driver.core.state.restore_point import RestorePoint, Tainted
from holdfast.protocol.faults import Blame, Evidence, Pause, Rung
from holdfast.protocol.messages import Rendezvous, Seat, Stored


class JobChanges(TypedDict, total=False):
    """Of a job."""

    wanted: Wanted
    ends: Phase | None
    why: str
    waiting: str
    parked: str
    backoff: Backoff | None
    failure: Failure | None
    standbys: tuple[str, ...]
    failed_standbys: int
    leaving: tuple[str, ...]
    swaps: str
    epoch: int
    attempt: int
    stop: str
    rendezvous_host: str
    save: Stored | None
    saving: Saving | None
    rendezvous: Rendezvous | None
    seats: tuple[Seat, ...]
    restore: RestorePoint | None
    tally: Tally
    failed_s: float | None
    exits: tuple[Exited, ...]
    unlike: Fault | None
    ended: int
    held: Fault | None
    progressed: bool
    history: tuple[Attempt, ...]
    spoiled: Tainted | None
    points: tuple[RestorePoint, ...]
    granted: int | None
    unsure_s: float | None
    best_step: int | None
    best_step_s: float | None
    pauses: dict[str, Pause]
    reached: Reached | None
    unfit: dict[str, Unfit]
    tried: dict[str, Tried]
    barred: Unfit | None
    suspects: tuple[str, ...]
    exam: str | None
    facts: tuple[Fact, ...]
    incident: int | None
    repeating: int | None
    timers: dict[Timer, float]


class IncidentChanges(TypedDict, total=False):
    """Of an incident."""

    blame: Blame
    signs: tuple[str, ...]
    jobs: tuple[str, ...]
    waiting: tuple[str, ...]
    nodes: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    rung: Rung
    table: Table | None
    evicted: tuple[str, ...]
    anew_s: float | None
    seen_s: float | None
    suspended_s: float | None
    diagnosed_s: float | None
    replaced_s: float | None
    seated_s: float | None
    restored_s: float | None
    grouped_s: float | None
    loaded_s: float | None
    stepped_s: float | None
    resumed_s: float | None
    closed_s: float | None
    overtaken: bool
    outage: bool
    outcome: str
    stacks: dict[int, str]

"""Each rank of a job as the pages show it: how far, what it does, for whom it waits. Pure.

Made by `Watch` when somebody asks. Who waits for whom is followed as for a standstill, but told
only of ranks whose own ring has not moved for a second: heartbeats of different moments would have
everybody wait for everybody else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from holdfast.driver.watch import jobs, slow
from holdfast.driver.watch.jobs import QUIET_S, JobSeen
from holdfast.driver.watch.lately import Spent
from holdfast.driver.watch.model import Expectation
from holdfast.driver.watch.standstill_manner import GONE, STOPPED
from holdfast.protocol.messages import RankProgress, Seat
from holdfast.protocol.topology import Axis, Topology
from holdfast.telemetry.analysis import hang
from holdfast.telemetry.analysis.hang import Wait

TOLD_OF = 4
"""Ranks that a row names as waited for; `Moment.waits` has all of them."""


class RankRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One rank. What is not told is as its default here."""

    rank: int
    local_rank: int
    node: str
    role: str = ""  # those of one role have alike to do, and are compared with each other
    state: str = "unseen"  # "runs", "waits", "pauses", "still", "stopped", "gone", "unseen"
    pid: int = 0  # on its node
    step: int = 0
    phase: str = ""
    loss: float | None = None
    still_s: float = 0.0  # since anything in its ring moved
    heard_s: float = 0.0  # how long ago
    waits_in: str = ""  # all_reduce #12 of [0, 1]
    waits_on: tuple[int, ...] = ()  # the first of them
    waits_on_count: int = 0
    cpu_share: float = 0.0  # of one core, over its last heartbeat
    spent: Spent | None = None  # where its time went lately; null before two looks at it
    frame: str = ""  # where its main thread stands in the user's code
    last_line: str = ""
    verdict: str = ""  # what the detectors hold against it now


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A job at one moment."""

    job: str
    now_s: float  # driver time
    step: int  # that all ranks have completed
    median_step_s: float | None = None
    quiet_s: float = 0.0  # nothing has moved in any ring for so long
    topology: Topology = Topology()  # as declared, where that is all ranks
    declared: bool = False
    ranks: tuple[RankRow, ...] = ()
    waits: tuple[Wait, ...] = ()
    ends: tuple[int, ...] = ()  # ranks at which the waits end
    why: tuple[str, ...] = ()


def moment(
    job: JobSeen,
    spent: Callable[[int], Spent | None],
    verdicts: Mapping[int, str],
    now: float,
) -> tuple[Moment, Iterator[RankRow]]:
    """The job, and all of its ranks in order, each made when it is asked for: to make 12,288 at
    once would keep the driver from all else for a tenth of a second. What is heard meanwhile is in
    the later ones. `verdicts`: what detectors hold against ranks."""
    expected = job.expected
    declared = expected.topology.world_size == len(expected.seats)
    waits, ended = _waits(job, now)
    told = {rank: _of_it(rank, said, job) for rank, said in verdicts.items()}
    if ended.rank is not None:
        told[ended.rank] = "; ".join(ended.why)
    awaits = {rank: wait for wait in reversed(waits) for rank in wait.waiting}
    told_now = Moment(
        job=expected.job,
        now_s=now,
        step=job.completed_step() or 0,
        median_step_s=job.pace.median_s,
        quiet_s=jobs.quiet_s(job, now),
        topology=expected.topology if declared else Topology(dp=len(expected.seats)),
        declared=declared,
        waits=waits,
        ends=() if ended.rank is None else (ended.rank, *ended.others),
        why=ended.why,
    )
    rows = (_row(job, seat, spent(seat.rank), told, awaits, now) for seat in expected.seats)
    return told_now, rows


def _of_it(rank: int, said: str, job: JobSeen) -> str:
    """Without its name at the beginning, which is beside it wherever this is shown."""
    return said.removeprefix(f"rank {rank} on {job.places.get(rank, '')} ")


_NOBODY = hang.Verdict(rank=None, why=())


def _waits(job: JobSeen, now: float) -> tuple[tuple[Wait, ...], hang.Verdict]:
    """Of ranks that have not moved for a second; nothing where there are none."""
    stand = {
        rank
        for rank, known in job.ranks.items()
        if known.progress.hooks
        and known.progress.still_s + now - known.heard_s > QUIET_S
        and jobs.is_fresh(job, known, now)
    }
    if not stand:
        return (), _NOBODY
    fresh = jobs.fresh(job, now)
    watched = {rank: seen for rank, seen in fresh.items() if seen.hooks}
    missing = {seat.rank for seat in job.expected.seats} - fresh.keys()
    found = _those(hang.waits_of(watched, missing), stand)
    return found, hang.culprit(watched, missing) if found else _NOBODY


def _those(waits: Iterable[Wait], stand: set[int]) -> tuple[Wait, ...]:
    cut = (
        Wait(wait.where, tuple(rank for rank in wait.waiting if rank in stand), wait.lacking)
        for wait in waits
    )
    return tuple(wait for wait in cut if wait.waiting)


def _row(
    job: JobSeen,
    seat: Seat,
    spent: Spent | None,
    verdicts: Mapping[int, str],
    awaits: Mapping[int, Wait],
    now: float,
) -> RankRow:
    rank, verdict = seat.rank, verdicts.get(seat.rank, "")
    known = job.ranks.get(rank)
    if known is None:
        return RankRow(rank=rank, local_rank=seat.local_rank, node=seat.node, verdict=verdict)
    heard, wait = jobs.is_fresh(job, known, now), awaits.get(rank)
    seen = jobs.as_now(known, now) if heard else known.progress
    return RankRow(
        rank=rank,
        local_rank=seat.local_rank,
        node=seat.node,
        role=_role(seen, job.expected),
        state=_state(seen, heard=heard, waits=wait is not None),
        pid=seen.pid,
        step=seen.step,
        phase=seen.phase,
        loss=seen.loss,
        still_s=round(seen.still_s, 3),
        heard_s=round(max(0.0, now - known.heard_s), 3),
        waits_in=wait.where if wait else "",
        waits_on=wait.lacking[:TOLD_OF] if wait else (),
        waits_on_count=len(wait.lacking) if wait else 0,
        cpu_share=round(known.cpu_share, 3),
        spent=spent,
        frame=seen.frame,
        verdict=verdict,
    )


def _state(seen: RankProgress, *, heard: bool, waits: bool) -> str:
    if not heard:
        return "unseen"
    if seen.process in GONE:
        return "gone"
    if seen.process in STOPPED:
        return "stopped"
    if seen.pause:
        return "pauses"
    if waits:
        return "waits"
    return "still" if seen.hooks and seen.still_s > QUIET_S else "runs"


def _role(seen: RankProgress, expected: Expectation) -> str:
    """A word for what `slow` compares by."""
    return ROLES.get(found := slow.role(seen, expected), f"{Axis.PP}{found}")


ROLES: Mapping[object, str] = {
    (False, False): "",
    (True, False): "sends",
    (False, True): "receives",
    (True, True): "sends and receives",
}
"""Of ranks that do not say which stage they are: by their messages."""

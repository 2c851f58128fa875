"""Bursts as they are told of: a list of a job's, and one with its samples and figures.

Used by the routes, and by the page and `cli` over a run's folder. Reads files: in a thread.
"""

from itertools import pairwise
from pathlib import Path

from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.view import View
from holdfast.traces.bursts import kept, said
from holdfast.traces.bursts.record import Burst, NoBurst


class BurstNote(View):
    """Which burst it is."""

    id: int
    """Counted from 1 for each job."""
    node: str
    began_at: str
    """Time of day, UTC."""
    why: str
    """Who asked, or the incident."""
    incident: int | None
    rails: list[str]
    samples: int


class TakenBurst(View):
    """A burst that was just taken, and whose."""

    job: str
    burst: BurstNote


class BurstList(View):
    job: str
    items: list[BurstNote]
    """Oldest first."""


class RailView(View):
    """One rail: figures of both directions together, and the bytes between samples of each."""

    name: str
    mean_bytes_per_s: float
    peak_bytes_per_s: float
    """In the busiest millisecond."""
    idle: float
    """Share of the milliseconds with less than a hundredth of the peak."""
    gap_s: float
    """The longest idle time."""
    gap_at_s: float
    """When it began."""
    errors: int
    drops: int
    period_s: float | None
    """After which its traffic is like itself again; null where it has no rhythm."""
    received_bytes: list[int]
    sent_bytes: list[int]


class BurstView(View):
    """A node's rails, each millisecond."""

    job: str
    burst: BurstNote
    says: str
    """What it shows, in words."""
    seconds: float
    period_p50_s: float
    """Between two samples, at the median; a millisecond is meant."""
    period_p99_s: float
    missed: int
    """Milliseconds in which nobody looked."""
    cpu_s: float
    """That it took of the node's processors."""
    degraded: str
    """What could not be done as it should; else empty."""
    at_us: list[int]
    """When each sample was taken, since the first."""
    rails: list[RailView]


def listed(root: Path, job: str) -> BurstList:
    """Those that are kept."""
    return BurstList(job=job, items=[note_view(each) for each in kept.notes(root, job)])


def one(root: Path, job: str, number: int) -> BurstView:
    """Raises `Problem` where there is none, or none that can be read."""
    try:
        return view(job, *kept.read(root, job, number))
    except FileNotFoundError:
        raise no_burst(job, number) from None
    except (NoBurst, OSError) as error:
        raise unreadable_burst(job, number, str(error)) from error


def no_burst(job: str, burst: int) -> Problem:
    sentence = f"{job} has no burst {burst}."
    return Problem(404, sentence, fix=f"Those that are kept: holdfast burst ls {job}")


def unreadable_burst(job: str, burst: int, why: str) -> Problem:
    return Problem(503, f"burst {burst} of {job} {why}.", fix="Take another: holdfast burst NODE")


def view(job: str, note: kept.Note, burst: Burst) -> BurstView:
    """Pure."""
    figures = [said.rail_said(burst, rail) for rail in burst.rails]
    gaps = sorted(after - before for before, after in pairwise(burst.at_us)) or [0]
    return BurstView(
        job=job,
        burst=note_view(note),
        says=said.sentence(burst, figures),
        seconds=burst.seconds,
        period_p50_s=gaps[len(gaps) // 2] / 1e6,
        period_p99_s=gaps[len(gaps) * 99 // 100] / 1e6,
        missed=burst.missed,
        cpu_s=burst.cpu_s,
        degraded=burst.degraded,
        at_us=burst.at_us,
        rails=[
            RailView(
                name=rail.name,
                mean_bytes_per_s=each.mean * 1e3,
                peak_bytes_per_s=each.peak * 1e3,
                idle=each.idle,
                gap_s=each.gap_ms / 1e3,
                gap_at_s=each.gap_at_ms / 1e3,
                errors=each.errors,
                drops=each.drops,
                period_s=None if each.period_ms is None else each.period_ms / 1e3,
                received_bytes=rail.received,
                sent_bytes=rail.sent,
            )
            for rail, each in zip(burst.rails, figures, strict=True)
        ],
    )


def note_view(note: kept.Note) -> BurstNote:
    return BurstNote(
        id=note.id,
        node=note.node,
        began_at=note.began_at,
        why=note.why,
        incident=note.incident,
        rails=note.rails,
        samples=note.samples,
    )

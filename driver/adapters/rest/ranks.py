"""Routes about a job's ranks at this moment: a row each, and how they lie in dp x pp x tp.

An answer about 12,288 ranks takes a part of a second of the driver's loop to make. So it is made in
pieces, between which all else has its turn; and what was made is kept, and given to whoever asks,
for SHARE times as long as it took: however many look, the loop gives no more than that of its time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from msgspec.structs import replace

from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.core.state.model import Job
from holdfast.driver.people.control import Control
from holdfast.driver.watch.rank_rows import Moment, RankRow
from holdfast.protocol.paths import RunPaths
from holdfast.protocol.topology import Axis, Topology
from holdfast.telemetry.analysis.hang import Wait

T = TypeVar("T")

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"], dependencies=[Depends(person)])

SHARE = 20
"""An answer is kept 20 times as long as it took: .05 of a core."""
PIECE = 1_024
"""Ranks: about 10 ms of the loop."""
LINES_OF = 16
"""Ranks of a job up to which the last line of each is read, where its logs are here: more files
are no glance."""
LINE_BYTES = 400


class Ranks(Moment, frozen=True, kw_only=True):
    """Each rank of a job now."""

    attempt: int
    racks: dict[str, str] = msgspec.field(default_factory=dict)  # of each node, where told
    nothing: str = ""  # why there is no rank


class Placed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A rank in the grid."""

    rank: int
    node: str
    at: tuple[int, int, int]  # dp, pp, tp
    state: str
    verdict: str = ""


class View3d(msgspec.Struct, frozen=True, kw_only=True):
    """Where each rank stands, and who waits for whom. Waits are told by place: all in `waiting` are
    in `where`, to which those in `lacking` have not come."""

    job: str
    now_s: float
    dims: dict[str, int]
    order: tuple[Axis, ...]  # fastest-varying first
    declared: bool  # else all ranks are in one row, along dp
    quiet_s: float
    ranks: tuple[Placed, ...]
    waits: tuple[Wait, ...]
    ends: tuple[int, ...]
    why: tuple[str, ...]
    nothing: str


@router.get("/{job}/ranks", dependencies=[NO_PARAMETERS])
async def ranks(job: str, control: Driver, request: Request) -> Any:
    """One row a rank: where, how far, what it does, for whom it waits, where its time went lately,
    and what detectors hold against it. `spent` is null before the second look."""
    kept: Kept = request.app.state.rank_answers
    number = job_of(control, job).number
    seen = request.headers.get("if-none-match", "")
    return await kept.answer(f"ranks of {number}", lambda work: _ranks(control, job, work), seen)


@router.get("/{job}/view3d", dependencies=[NO_PARAMETERS])
async def view3d(job: str, control: Driver, request: Request) -> Any:
    """Where each rank stands in dp x pp x tp, and who waits for whom."""
    kept: Kept = request.app.state.rank_answers
    number = job_of(control, job).number
    seen = request.headers.get("if-none-match", "")
    return await kept.answer(f"view3d of {number}", lambda work: _view3d(control, job, work), seen)


# ---------------------------------------------------------------- what is answered


class Work:
    """What the loop is given to do for an answer, a piece at a time; `took_s`: all pieces."""

    def __init__(self) -> None:
        self.took_s = 0.0

    @contextmanager
    def piece(self) -> Iterator[None]:
        began_s = time.perf_counter()
        yield
        self.took_s += time.perf_counter() - began_s

    async def all_of(self, made: Iterator[T]) -> tuple[T, ...]:
        """What is made when it is asked for; others have their turn in between."""
        found: list[T] = []
        while True:
            before = len(found)
            with self.piece():
                found += islice(made, PIECE)
            if len(found) - before < PIECE:
                return tuple(found)
            await asyncio.sleep(0)


async def _view3d(control: Control, name: str, work: Work) -> View3d:
    now = await moment_of(control, job_of(control, name), work)
    placed = await work.all_of(_placed(row, now.topology) for row in now.ranks)
    return view3d_of(now, placed)


async def _ranks(control: Control, name: str, work: Work) -> Ranks:
    job = job_of(control, name)
    now = await moment_of(control, job, work)
    if 0 < len(now.ranks) <= LINES_OF:
        lines = await asyncio.to_thread(last_lines, control.settings.paths, job)
        rows = (replace(row, last_line=lines.get(row.rank, "")) for row in now.ranks)
        return replace(now, ranks=tuple(rows))
    return now


async def moment_of(control: Control, job: Job, work: Work) -> Ranks:
    """The job at this moment; without ranks a sentence says why."""
    with work.piece():
        found = control.watch.moment(job.name)
    if found is None:
        nothing = f"{job.name} has no ranks now: it is {job.phase.value}."
        none = Moment(job=job.name, now_s=control.now(), step=0)
        return Ranks(**msgspec.structs.asdict(none), attempt=job.attempt, nothing=nothing)
    seen, rows = found
    ranks = await work.all_of(rows)
    nodes = control.state.nodes
    here = sorted({row.node for row in ranks})
    racks = {name: nodes[name].rack for name in here if name in nodes and nodes[name].rack}
    told = {**msgspec.structs.asdict(seen), "ranks": ranks}
    return Ranks(**told, attempt=job.attempt, racks=racks)


def view3d_of(now: Ranks, placed: tuple[Placed, ...]) -> View3d:
    """Pure."""
    shape = now.topology
    return View3d(
        job=now.job,
        now_s=now.now_s,
        dims={axis.value: shape.size(axis) for axis in Axis},
        order=shape.order,
        declared=now.declared,
        quiet_s=now.quiet_s,
        ranks=placed,
        waits=now.waits,
        ends=now.ends,
        why=now.why,
        nothing=now.nothing,
    )


def _placed(row: RankRow, shape: Topology) -> Placed:
    at = shape.coordinates(row.rank)
    place = at[Axis.DP], at[Axis.PP], at[Axis.TP]
    return Placed(rank=row.rank, node=row.node, at=place, state=row.state, verdict=row.verdict)


def last_lines(paths: RunPaths, job: Job) -> dict[int, str]:
    """What each of not too many wrote last, where its log is in the run's folder. In a thread: it
    reads."""
    found: dict[int, str] = {}
    for rank in range(job.world_size if job.world_size <= LINES_OF else 0):
        folder = paths.rank(job.name, job.attempt, rank)
        for stream in ("stdout", "stderr"):
            if rank not in found and (line := last_line(folder / f"{stream}.log")):
                found[rank] = line
    return found


def last_line(path: Any) -> str:
    """The last whole line of a file that is no blank; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LINE_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


# ---------------------------------------------------------------- kept for whoever asks next


class Answer(NamedTuple):
    """Bytes of JSON, until when they are good, and a tag that no other answer of this driver has:
    who has seen it is spared megabytes (RFC 9110, 13.1.2)."""

    body: bytes
    tag: str
    until_s: float


class Kept:
    """Of one driver. Who asks for what is being made waits for that."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._making: dict[str, asyncio.Task[Answer]] = {}

    async def answer(
        self, name: str, make: Callable[[Work], Awaitable[Any]], seen: str = ""
    ) -> Response:
        """What was made lately, or what is made now; 304 to who has `seen` that. `Problem`s are of
        whoever asks."""
        known = self._answers.get(name)
        if known is None or known.until_s < time.monotonic():
            known = await asyncio.shield(self._made(name, make))  # who leaves ends it for nobody
        headers = {"ETag": known.tag}
        if seen == known.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(known.body, media_type="application/json", headers=headers)

    def _made(self, name: str, make: Callable[[Work], Awaitable[Any]]) -> "asyncio.Task[Answer]":
        task = self._making.get(name)
        if task is None:
            task = self._making[name] = asyncio.ensure_future(self._make(name, make))
            task.add_done_callback(lambda _: self._making.pop(name, None))
        return task

    async def _make(self, name: str, make: Callable[[Work], Awaitable[Any]]) -> Answer:
        work = Work()
        told = await make(work)
        with work.piece():
            body = msgspec.json.encode(told)
        now_s = time.monotonic()
        for over in [each for each, answer in self._answers.items() if answer.until_s < now_s]:
            del self._answers[over]
        made = self._answers[name] = Answer(
            body, f'"{time.monotonic_ns():x}"', now_s + SHARE * work.took_s
        )
        return made

"""Where ranks stand now: their stacks, taken by py-spy on their nodes, equal ones told once.

A sample costs its node some 30 ms of a core for each process, and stops no rank: `Sampler` lets one
job be asked about once at a time, and not again at once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request

from holdfast.driver.adapters.rest.body import read_json
from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.problems import Problem
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.state.model import Job
from holdfast.driver.people.control import Control
from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.protocol.counts import plural
from holdfast.protocol.mistakes import BadDocument, Mistake, shown
from holdfast.telemetry.analysis.alike_stacks import NO_STACK, alike

router = APIRouter(prefix=f"{PREFIX}/jobs", tags=["jobs"], dependencies=[Depends(person)])

MOST_RANKS = 1_024
"""At once: each node answers with 512 KiB at most, and 1,024 ranks are on 128 nodes of 8."""
WITHIN_S = 5.0
"""For a node to answer: py-spy itself is given up after 2 s."""
REST_S = 1.0
"""Between two samples of a job."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["ranks"],
    "properties": {
        "ranks": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "minItems": 1,
            "maxItems": MOST_RANKS,
        }
    },
}


class StackView(View):
    """What some ranks show, all of them the same."""

    ranks: list[int]
    text: str
    """Its threads as py-spy prints them, without pids and numbers of threads."""


class NoStackView(View):
    """A rank without a stack."""

    rank: int
    why: str


class StacksView(View):
    """Where ranks of a job stand."""

    job: str
    attempt: int
    stacks: list[StackView]
    """What most ranks show first."""
    missing: list[NoStackView]


class Sampler:
    """Of one driver: whose stacks are being taken, and whose were a moment ago."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._busy: set[str] = set()
        self._free_s: dict[str, float] = {}

    async def take(self, job: Job, ranks: Sequence[int]) -> StacksView:
        """Raises `Problem` where it is asked for too soon, or no rank has one."""
        self._begin(job.name)
        try:
            told = await self._told(job, ranks)
        finally:
            self._end(job.name)
        missing = {rank: text for rank, text in told.items() if text.startswith(NO_STACK)}
        if len(missing) == len(told):
            raise none_there(job.name, missing)
        return _view(job, told, missing)

    def _begin(self, job: str) -> None:
        if job in self._busy or self._control.clock.monotonic_s() < self._free_s.get(job, 0.0):
            raise too_soon(job)
        self._busy.add(job)

    def _end(self, job: str) -> None:
        self._busy.discard(job)
        now_s = self._control.clock.monotonic_s()
        self._free_s = {name: at for name, at in self._free_s.items() if at > now_s}
        self._free_s[job] = now_s + REST_S

    async def _told(self, job: Job, ranks: Sequence[int]) -> dict[int, str]:
        """By rank its stack, or why there is none. All nodes are asked at once."""
        by_node: dict[str, list[int]] = {}
        for rank in ranks:
            by_node.setdefault(job.layout.node_of(rank), []).append(rank)
        asked = (self._of_node(job.name, node, some) for node, some in by_node.items())
        return {rank: text for told in await asyncio.gather(*asked) for rank, text in told.items()}

    async def _of_node(self, job: str, node: str, ranks: Sequence[int]) -> dict[int, str]:
        try:
            told = await self._control.nodes.stacks(node, job, ranks, WITHIN_S)
        except (TemporaryError, PermanentError) as error:
            return dict.fromkeys(ranks, f"{NO_STACK}{error}")
        return {rank: told.get(rank, f"{NO_STACK}{node} did not tell of it") for rank in ranks}


@router.post("/{job}/stacks", dependencies=[NO_PARAMETERS])
async def take_stacks(job: str, request: Request, control: Driver) -> StacksView:
    """Take the stacks of ranks that run, now. Nothing is stopped, and nothing written down."""
    body = await read_json(request)
    ranks = body.get("ranks") if isinstance(body, dict) else None
    return await taken(control, request.app.state.sampler, job, ranks)


async def taken(control: Control, sampler: Sampler, job: str, asked: Any) -> StacksView:
    """Of whoever asks: the page has a form for it. Raises `BadDocument`, `Problem`."""
    ranks, found = checked_ranks(asked), job_of(control, job)
    if not found.seats:
        raise not_running(job, found.phase.value)
    if (rank := max(ranks)) >= found.world_size:
        raise no_rank(job, found.world_size, rank)
    return await sampler.take(found, ranks)


def checked_ranks(ranks: Any) -> list[int]:
    """The ranks, each once, in order. Raises `BadDocument`."""
    whole = isinstance(ranks, list) and all(type(each) is int and each >= 0 for each in ranks)
    if whole and 0 < len(ranks) <= MOST_RANKS:
        return sorted(set(ranks))
    why, value = "it names the ranks whose stacks are wanted.", shown(ranks)
    if whole and ranks:
        why, value = f"it has {len(ranks):,} ranks.", ""
    fix = f'Send 1 to {MOST_RANKS:,} of them, such as {{"ranks": [0, 5]}}.'
    value = "" if ranks is None else value
    raise BadDocument([Mistake(field="ranks", value=value, why=why, fix=fix)])


def not_running(job: str, phase: str) -> Problem:
    return Problem(
        409, f"no rank of {job} runs: it is {phase}.", fix=f"What it waits for: holdfast why {job}"
    )


def no_rank(job: str, ranks: int, rank: int) -> Problem:
    there = f"ranks 0 to {ranks - 1}" if ranks > 1 else "one rank, rank 0"
    return Problem(404, f"{job} has {there}, not {rank}.", fix="Name one that it has.")


def too_soon(job: str) -> Problem:
    sentence = f"stacks of {job} are being taken, or were within {REST_S:g} s."
    return Problem(429, sentence, fix=f"Ask again in {REST_S:g} s.")


def none_there(job: str, missing: Mapping[int, str]) -> Problem:
    """503 with the first reason; the others are mostly the same."""
    rank, text = min(missing.items())
    rest = plural(len(missing) - 1, "more rank")
    more = f" (nor of {rest})" if len(missing) > 1 else ""
    why = text.removeprefix(NO_STACK)
    sentence = f"there is no stack of rank {rank} of {job}{more}: {why}."
    return Problem(503, sentence, fix=f"How it is: holdfast status {job}")


def _view(job: Job, told: Mapping[int, str], missing: Mapping[int, str]) -> StacksView:
    groups = alike({rank: text for rank, text in told.items() if rank not in missing})
    return StacksView(
        job=job.name,
        attempt=job.attempt,
        stacks=[StackView(ranks=list(each.ranks), text=each.text) for each in groups],
        missing=[
            NoStackView(rank=rank, why=text.removeprefix(NO_STACK))
            for rank, text in sorted(missing.items())
        ],
    )

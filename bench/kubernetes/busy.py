"""`holdfast bench busy`: a fleet that is full of others' pods but for four nodes of ten.

Called by `bench.main`. What the driver makes of it is seen from outside: its memory in /proc, what
it has counted in its figures for Prometheus, what it wrote in the audit log, its pods by a watch.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from holdfast.bench.figures import Incomplete, Try
from holdfast.bench.kubernetes import fleet, gang, job, others
from holdfast.bench.kubernetes.benchmark import FAILURES, built
from holdfast.bench.kubernetes.operator import Operator
from holdfast.bench.kubernetes.stage import Stage
from holdfast.bench.kubernetes.ways import Plain
from holdfast.driver.adapters.kubernetes.wiring import USER_AGENT
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

OURS = "holdfast"
JOBS = 3
"""Placed one after the other in each round."""
BARS = 20
MIB = 2**20
STILL_S = 3.0
"""A driver that has nothing to do has let go of what it read."""

Take = Callable[[Try], None]
Say = Callable[[str], None]


class Wrong(Exception):
    """A pod was made for a node that is full: what was counted was not right."""


def measure(rounds: int, take: Take, say: Say, *, others_wanted: int) -> None:
    """Play it in a folder that is removed afterwards. Raises `Incomplete`."""
    nodes = others.nodes_for(others_wanted)
    try:
        built(say)
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
            say("a control plane, kwok and emulated nodes")
            with Stage(Path(root), Plain()) as stage:
                _played(stage, rounds, take, say, nodes, others_wanted)
    except* (*FAILURES, Wrong) as failures:
        reasons = "; ".join(str(reason) for reason in failures.exceptions)
        raise Incomplete(reasons) from failures


def _played(stage: Stage, rounds: int, take: Take, say: Say, nodes: int, count: int) -> None:
    size = f"{count} others"
    say(f"{nodes} fake nodes")
    stage.grow(nodes)
    for _ in range(rounds):
        with Operator(stage) as operator:
            operator.ready()
            take(_memory(operator, f"driver's memory, {nodes} nodes alone"))
    _fill(stage.plane, count, say)
    say("kwok has all of them run")
    stage.settle()
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: {size}")
        for one in _round(stage, size, count):
            take(one)
            say(f"    {one.figure}: {one.value or 0:.2f} {one.unit}")


def _round(stage: Stage, size: str, count: int) -> Iterator[Try]:
    """A driver begins, counts all pods, and places some jobs."""
    began_s = time.monotonic()
    with Operator(stage) as operator:
        operator.counts("pods of all", count)
        counted_s = time.monotonic() - began_s
        yield Try(
            system=OURS, figure=f"driver started until sums are right, {size}", value=counted_s
        )
        operator.ready()
        began_s = time.monotonic()
        operator.kill()
        operator.counts("pods of all", count)
        counted_s = time.monotonic() - began_s
        yield Try(
            system=OURS, figure=f"driver killed until sums are right, {size}", value=counted_s
        )
        operator.ready()
        yield _memory(operator, f"driver's memory, {size}")
        for _ in range(JOBS):
            yield from _placed(stage, size)


def _memory(operator: Operator, figure: str) -> Try:
    """Resident, once it is still; at most so much until then is in the note."""
    time.sleep(STILL_S)
    used = operator.usage()
    note = f"{used.peak_bytes / MIB:.0f} MiB at most until then"
    return Try(system=OURS, figure=figure, unit="MiB", value=used.memory_bytes / MIB, note=note)


def _placed(stage: Stage, size: str) -> Iterator[Try]:
    """A job of two nodes with all their devices: where six of ten have no room for its pod."""
    admin, since = stage.plane.admin, datetime.now(UTC).isoformat()
    nodes, bound_s = asyncio.run(gang.bound(admin, job.pair()))
    if full := [node for node in nodes if others.is_full(node)]:
        raise Wrong(f"{', '.join(full)} is full, and got a pod")
    yield Try(system=OURS, figure=f"2-node job bound, {size}", value=bound_s)
    made = [each for each in stage.written(since, USER_AGENT) if not _is_question(each.what)]
    kinds = Counter(f"{each.verb} {each.what}" for each in made)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    figure = f"writes until it is bound, {size}"
    yield Try(system=OURS, figure=figure, unit="writes", value=len(made), note=told)
    asyncio.run(gang.deleted_s(admin, job.PAIR))


def _is_question(what: str) -> bool:
    """Whether it is asked of the API server, and nothing is changed by it."""
    return what in ("tokenreviews", "selfsubjectaccessreviews")


def _fill(plane: ControlPlane, count: int, say: Say) -> None:
    plane.kubectl("create", "namespace", others.NAMESPACE)
    began_s = time.monotonic()
    asyncio.run(_made(plane.admin, count, say))
    taken_s = time.monotonic() - began_s
    say(f"{count} pods of others were made in {taken_s:.0f} s")


async def _made(kubeconfig: Path, count: int, say: Say) -> None:
    """All pods of others; says how many are there."""
    where, done = paths.pods(others.NAMESPACE), 0

    async def make(number: int) -> None:
        nonlocal done
        await client.create(where, others.pod(number))
        done += 1
        if done % max(1, count // BARS) == 0:
            say(bar(done, count))

    async with fleet.client_of(kubeconfig) as client:
        await gang.account(client, others.NAMESPACE)
        await fleet.for_each(range(count), make)


def bar(done: int, count: int) -> str:
    """How far the making of pods is."""
    full = BARS * done // count
    return f"pods of others  {'█' * full}{'·' * (BARS - full)}  {done} of {count}"

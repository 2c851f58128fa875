"""One round at one size: the pods bare, then the gang and all that is asked of its driver.

Called by `benchmark`. Whether the bare pods come first changes from round to round. They are made
twice: as they are, and with gates.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from holdfast.bench.figures import Try, quantile
from holdfast.bench.kubernetes import fleet, gang, job, latency, sides
from holdfast.bench.kubernetes.operator import Operator
from holdfast.bench.kubernetes.sizes import Size
from holdfast.bench.kubernetes.stage import REAL_NODES, Stage, Written
from holdfast.driver.adapters.kubernetes.wiring import USER_AGENT
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Source
from holdfast.kubeapi import paths

OURS, BARE, GATED, KUBERNETES = "holdfast", "bare create", "bare create, gated", "kubernetes"
WATCHED_S = 5.0
"""How long the driver of a gang that runs is looked at."""
MIB, KIB = 2**20, 2**10

Say = Callable[[str], None]


def play(stage: Stage, size: Size, number: int, say: Say) -> Iterator[Try]:
    """Everything of one round. A driver and a job that really runs are there throughout, also while
    the bare pods are made: what they take they take from both.
    """
    admin, bound = stage.plane.admin, dict[str, float]()
    since = datetime.now(UTC).isoformat()

    def bare() -> Iterator[Try]:
        for system in (BARE, GATED):
            stage.settle()
            say(f"{size}: the same pods, {system}")
            bound[system] = asyncio.run(gang.bare_s(admin, size.gang, gated=system == GATED))
            yield Try(system=system, figure=f"bound, {size}", value=bound[system])

    def ours() -> Iterator[Try]:
        for one in _of_the_gang(stage, operator, size, number, say):
            bound.setdefault(OURS, one.value or 0.0)
            yield one

    with Operator(stage) as operator:
        say(f"{size}: a driver, and a job that really runs")
        operator.ready()
        operator.has(lambda state: _there(state) == size.nodes + REAL_NODES)
        asyncio.run(gang.begun(admin, job.beside(REAL_NODES), lambda: None))
        for part in (ours, bare) if number % 2 else (bare, ours):
            yield from part()
        lost = asyncio.run(gang.restarts(admin, job.BESIDE))
        yield Try(
            system=OURS, figure=f"restarts of the job beside, {size}", unit="restarts", value=lost
        )
        asyncio.run(gang.deleted_s(admin, job.BESIDE))
        written = stage.written(since, USER_AGENT)
        yield from _writes(written, f"in all, {size}", size.gang + REAL_NODES)
    for system, figure in {BARE: "bound over bare", GATED: "bound over bare with gates"}.items():
        value = bound[OURS] / bound[system]
        yield Try(system=OURS, figure=f"{figure}, {size}", unit="times", value=value)


def _of_the_gang(
    stage: Stage, operator: Operator, size: Size, number: int, say: Say
) -> Iterator[Try]:
    """From its submission until nothing of it is left; first of all, how soon it was bound."""
    admin, since = stage.plane.admin, datetime.now(UTC).isoformat()
    mine = partial(Try, system=OURS)
    stage.settle()
    say(f"{size}: the gang")
    before = operator.usage()
    began = asyncio.run(gang.begun(admin, job.gang(size.gang), operator.go))
    after, runs = operator.usage(), datetime.now(UTC).isoformat()
    yield mine(figure=f"bound, {size}", value=began.bound_s)
    yield mine(figure=f"running, {size}", value=began.running_s)
    yield mine(
        figure=f"driver's CPU until it runs, {size}",
        unit="CPU s",
        value=after.cpu_s - before.cpu_s,
    )
    until = [each for each in stage.written(since, USER_AGENT) if each.at < runs]
    yield from _writes(until, f"until it runs, {size}", size.gang)
    yield from _while_it_runs(operator, size)
    yield from asyncio.run(_sizes(stage, size))
    say(f"{size}: conditions of nodes")
    taken_s = asyncio.run(latency.conditions_s(stage, operator, size.conditions))
    for what, share in {"median": 0.5, "99th percentile": 0.99}.items():
        figure = f"condition to decision, {what}, {size}"
        yield mine(figure=figure, value=quantile(taken_s, share), note=f"of {len(taken_s)} nodes")
    say(f"{size}: our reflector and typed watches")
    yield from asyncio.run(sides.compared(admin, number, str(size)))
    peak = operator.usage().peak_bytes
    stage.settle()
    say(f"{size}: the driver killed")
    ready_s, back_s = latency.back_s(operator, size.gang + REAL_NODES)
    yield mine(figure=f"killed driver ready, {size}", value=ready_s)
    yield mine(figure=f"executors back, {size}", value=back_s)
    peak = max(peak, operator.usage().peak_bytes)
    yield mine(figure=f"driver's memory, peak, {size}", unit="MiB", value=peak / MIB)
    say(f"{size}: the end")
    yield mine(figure=f"deleted, {size}", value=asyncio.run(gang.deleted_s(admin, job.GANG)))


def _there(state: State) -> int:
    return sum(node.present and Source.CORDON not in node.against for node in state.nodes.values())


def _while_it_runs(operator: Operator, size: Size) -> Iterator[Try]:
    before, began_s = operator.usage(), time.monotonic()
    time.sleep(WATCHED_S)
    share = (operator.usage().cpu_s - before.cpu_s) / (time.monotonic() - began_s)
    figure = f"driver's CPU while it runs, {size}"
    yield Try(system=OURS, figure=figure, unit="cores", value=share)


async def _sizes(stage: Stage, size: Size) -> list[Try]:
    """Of a Node and of a pod, as the API server sends them."""
    async with fleet.client_of(stage.plane.admin) as client:
        node = await client.get(paths.nodes(fleet.node_name(0)))
        pod = await client.get(paths.pods(fleet.NAMESPACE, f"{job.GANG}-0-1"))
    return [
        Try(
            system=KUBERNETES,
            figure=f"size of a {kind}, {size}",
            unit="KiB",
            value=len(msgspec.json.encode(found)) / KIB,
        )
        for kind, found in (("Node", node), ("pod", pod))
    ]


def _writes(written: Sequence[Written], when: str, pods: int) -> Iterator[Try]:
    """What the driver wrote, by pod; what it may do it asks at its start, for however many."""
    kinds = Counter(f"{each.verb} {each.what}" for each in written if each.code < 300)
    reviews = kinds.pop("create tokenreviews", 0)
    kinds.pop("create selfsubjectaccessreviews", None)
    of_pods = sum(count for kind, count in kinds.items() if kind.endswith(" pods"))
    others = kinds.total() - of_pods
    mine = partial(Try, system=OURS, unit="a pod")
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield mine(figure=f"writes of pods {when}", value=of_pods / pods, note=told)
    yield mine(figure=f"other writes {when}", unit="writes", value=others)
    yield mine(figure=f"token reviews {when}", value=reviews / pods)

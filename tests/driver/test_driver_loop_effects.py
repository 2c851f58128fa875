"""Each effect ends in its event, whatever the ports do; and entries flow to who subscribes."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.no_cluster import NoCluster
from holdfast.driver.cluster.effect_runner import MAX_STACK_CHARACTERS, EffectRunner
from holdfast.driver.core.effects import (
    Allocate,
    AnyEffect,
    Distrust,
    HoldForExam,
    Instruct,
    Release,
    TakeStacks,
    Trust,
)
from holdfast.driver.core.events import (
    AllocationFailed,
    AnyEvent,
    ClusterCallFailed,
    NodeAllocated,
    NodeDistrusted,
    NodeReleased,
    NodeTrusted,
    StacksFailed,
    StacksTaken,
)
from holdfast.driver.ports import Fact, PermanentError, TemporaryError, UnfitError
from holdfast.protocol.messages import Desired


class ScriptedCluster:
    """Fails the calls named; notes when each begins and ends."""

    def __init__(self, **failures: Exception) -> None:
        self.failures = failures
        self.log: list[str] = []
        self.wanted = asyncio.Event()

    async def facts(self) -> AsyncIterator[Fact]:
        yield Fact(node="n")

    async def _call(self, name: str, node: str) -> None:
        self.log.append(f"{name} {node} begins")
        await asyncio.sleep(0)
        if name in self.failures:
            raise self.failures[name]
        self.log.append(f"{name} {node} ends")

    async def allocate(self, job: str, node: str) -> None:
        await self._call("allocate", node)

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        await self._call("holdforexam", node)

    def give_up(self, node: str) -> None:
        self.wanted.set()

    async def release(self, node: str) -> None:
        await self._call("release", node)

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        await self._call("distrust", node)

    async def trust(self, node: str) -> None:
        await self._call("trust", node)


class StuckCluster(ScriptedCluster):
    """An API server that is away: no call of an executor ever ends."""

    async def allocate(self, job: str, node: str) -> None:
        self.log.append(f"allocate {node} begins")
        await asyncio.Event().wait()


async def test_a_driver_that_ends_waits_for_no_call() -> None:
    cluster, told = StuckCluster(), list[AnyEvent]()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        effects = EffectRunner(
            cluster=cluster, nodes=ScriptedNodes(), emit=told.append, term=lambda: 1, group=group
        )
        effects.start(Allocate(job="job", node="n", cause=1))
        await asyncio.sleep(0)
        effects.leave()
    assert cluster.log == ["allocate n begins"]
    assert told == []


class ScriptedNodes:
    """Node n1 answers, n2 does not."""

    def __init__(self) -> None:
        self.told: list[Desired] = []

    def instruct(self, desired: Desired) -> None:
        self.told.append(desired)

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        if node == "n2":
            raise TemporaryError("node n2: no answer within 1 s")
        return dict.fromkeys(ranks, "x" * 100000)


async def ends_of(
    effects: Sequence[AnyEffect], cluster: ScriptedCluster | NoCluster
) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    async with asyncio.TaskGroup() as group:
        runner = EffectRunner(
            cluster=cluster,
            nodes=ScriptedNodes(),  # type: ignore[arg-type]
            emit=events.append,
            term=lambda: 3,
            group=group,
        )
        for effect in effects:
            runner.start(effect)
    return events


CALLS: list[tuple[AnyEffect, AnyEvent, AnyEvent]] = [
    (
        Allocate(job="j", node="n", cause=5),
        NodeAllocated(job="j", node="n", cause=5),
        AllocationFailed(job="j", node="n", why="no", cause=5),
    ),
    (
        HoldForExam(job="j", node="n", number=4, cause=5),
        NodeAllocated(job="j", node="n", cause=5),
        AllocationFailed(job="j", node="n", why="no", cause=5),
    ),
    (
        Release(node="n", cause=5),
        NodeReleased(node="n", cause=5),
        ClusterCallFailed(call="release", node="n", why="no", cause=5),
    ),
    (
        Distrust(node="n", incident=1, reason="r", cause=5),
        NodeDistrusted(node="n", cause=5),
        ClusterCallFailed(call="distrust", node="n", why="no", cause=5),
    ),
    (
        Trust(node="n", cause=5),
        NodeTrusted(node="n", cause=5),
        ClusterCallFailed(call="trust", node="n", why="no", cause=5),
    ),
]


@pytest.mark.parametrize(
    ("effect", "done", "failed"), CALLS, ids=[type(each[0]).__name__ for each in CALLS]
)
@pytest.mark.parametrize("error", [TemporaryError("no"), PermanentError("no")], ids=["t", "p"])
async def test_a_call_to_the_cluster_ends_done_or_failed_with_its_cause(
    effect: AnyEffect, done: AnyEvent, failed: AnyEvent, error: Exception
) -> None:
    name = type(effect).__name__.lower()
    assert await ends_of([effect], ScriptedCluster()) == [done]
    assert await ends_of([effect], ScriptedCluster(**{name: error})) == [failed]


class SlowCluster(ScriptedCluster):
    """An allocation goes on until nobody wants it."""

    async def allocate(self, job: str, node: str) -> None:
        await self.wanted.wait()
        raise UnfitError(f"node {node} is wanted no more")


async def test_a_release_does_not_wait_for_what_is_still_being_allocated() -> None:
    effects = [Allocate(job="j", node="n", cause=5), Release(node="n", cause=6)]
    async with asyncio.timeout(DEADLINE_S):
        failed, released = await ends_of(effects, SlowCluster())
    assert isinstance(failed, AllocationFailed)
    assert released == NodeReleased(node="n", cause=6)


async def test_an_allocation_that_fails_for_the_jobs_own_needs_says_so() -> None:
    cluster = ScriptedCluster(allocate=UnfitError("it has no GPU"))
    failed = AllocationFailed(job="j", node="n", why="it has no GPU", unfit=True, cause=5)
    assert await ends_of([Allocate(job="j", node="n", cause=5)], cluster) == [failed]


async def test_calls_for_one_node_come_in_order_and_others_do_not_wait() -> None:
    cluster = ScriptedCluster()
    await ends_of([Release(node="a"), Allocate(job="j", node="a"), Trust(node="b")], cluster)
    of_a = [line for line in cluster.log if " a " in line]
    assert of_a == ["release a begins", "release a ends", "allocate a begins", "allocate a ends"]
    assert cluster.log.index("trust b begins") < cluster.log.index("release a ends")


async def test_the_stacks_that_came_in_time_count_and_are_bounded() -> None:
    order = TakeStacks(job="j", incident=3, ranks={"n1": (0, 1), "n2": (2,)}, cause=5)
    (taken,) = await ends_of([order], ScriptedCluster())
    assert isinstance(taken, StacksTaken)
    assert (taken.incident, taken.cause, sorted(taken.stacks)) == (3, 5, [0, 1])
    assert all(len(text) == MAX_STACK_CHARACTERS for text in taken.stacks.values())


@pytest.mark.parametrize(
    ("ranks", "why"),
    [({"n2": (2,)}, "node n2: no answer within 1 s"), ({}, "there was no rank to ask")],
    ids=["silent", "none"],
)
async def test_without_any_stack_it_is_said_why(
    ranks: dict[str, tuple[int, ...]], why: str
) -> None:
    order = TakeStacks(job="j", incident=3, ranks=ranks, cause=5)
    expected = StacksFailed(job="j", incident=3, why=why, cause=5)
    assert await ends_of([order], ScriptedCluster()) == [expected]


async def test_an_instruction_is_handed_over_at_once() -> None:
    desired = Desired(node="n", generation=1, term=1, epoch=1)
    nodes = ScriptedNodes()
    async with asyncio.TaskGroup() as group:
        runner = EffectRunner(
            cluster=NoCluster(),
            nodes=nodes,  # type: ignore[arg-type]
            emit=pytest.fail,
            term=lambda: 3,
            group=group,
        )
        runner.start(Instruct(desired=desired))
        assert nodes.told == [desired]


async def test_without_a_cluster_nothing_can_be_allocated_and_nothing_is_held() -> None:
    failed, released = await ends_of([Allocate(job="j", node="n"), Release(node="m")], NoCluster())
    assert isinstance(failed, AllocationFailed)
    assert "Start it with --keeper" in failed.why
    assert released == NodeReleased(node="m")

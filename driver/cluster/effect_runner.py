"""Carries out what the core ordered, against the ports; every effect ends in its event.

Called by the loop, after the commit that ordered it. Must not decide: a failure is an event like
any other, and whether to try again is the core's to say. Nothing that was ordered is cancelled
while the driver leads.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine

from holdfast.driver.cluster.cause import acting_for
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
from holdfast.driver.ports import (
    BarredError,
    Cluster,
    Nodes,
    PermanentError,
    TemporaryError,
    UnfitError,
)

MAX_STACK_CHARACTERS = 16_384
"""Of one rank, in the journal: some two hundred frames."""

ClusterCall = Allocate | HoldForExam | Release | Distrust | Trust


class EffectRunner:
    """Runs effects as tasks of `group`; those on one node in the order in which they came."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        nodes: Nodes,
        emit: Callable[[AnyEvent], None],
        term: Callable[[], int],
        group: asyncio.TaskGroup,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._emit = emit
        self._term = term
        self._group = group
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self, effect: AnyEffect) -> None:
        """Begin; the outcome comes as an event with the effect's cause."""
        match effect:
            case Instruct():
                self._nodes.instruct(effect.desired)
            case TakeStacks():
                self._begin(self._take_stacks(effect))
            case _:
                if isinstance(effect, Release):
                    self._cluster.give_up(effect.node)  # its turn comes after what waits there
                self._begin(self._call(effect))

    def leave(self) -> None:
        """This driver ends: what is under way is the next one's, which orders it anew."""
        for task in self._under_way:
            task.cancel()

    def _begin(self, doing: Coroutine[None, None, None]) -> None:
        task = self._group.create_task(doing)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _call(self, effect: ClusterCall) -> None:
        outcome = _done(effect)
        try:
            doing = f"{type(effect).__name__} {effect.node}"
            with acting_for(term=self._term(), entry=effect.cause, doing=doing):
                async with self._turns[effect.node]:
                    await self._ask_cluster(effect)
        except (TemporaryError, PermanentError) as error:
            outcome = _failed(effect, error)
        self._emit(outcome)

    async def _ask_cluster(self, effect: ClusterCall) -> None:
        match effect:
            case Allocate():
                await self._cluster.allocate(effect.job, effect.node)
            case HoldForExam():
                await self._cluster.requalify(
                    effect.node, number=effect.number, job=effect.job, spec=effect.spec
                )
            case Release():
                await self._cluster.release(effect.node)
            case Distrust():
                await self._cluster.distrust(
                    effect.node, incident=effect.incident, reason=effect.reason
                )
            case Trust():
                await self._cluster.trust(effect.node)

    async def _take_stacks(self, effect: TakeStacks) -> None:
        """Ask all nodes at once; what came in time counts, for the ranks are killed right after."""
        stacks: dict[int, str] = {}
        failures: list[str] = []

        async def ask(node: str, ranks: tuple[int, ...]) -> None:
            try:
                stacks.update(await self._nodes.stacks(node, effect.job, ranks, effect.limit_s))
            except (TemporaryError, PermanentError) as error:
                failures.append(str(error))

        await asyncio.gather(*(ask(node, ranks) for node, ranks in effect.ranks.items()))
        self._emit(_stacks_outcome(effect, stacks, failures))


def _stacks_outcome(
    effect: TakeStacks, stacks: dict[int, str], failures: list[str]
) -> StacksTaken | StacksFailed:
    if stacks:
        return StacksTaken(
            job=effect.job,
            incident=effect.incident,
            stacks={rank: text[:MAX_STACK_CHARACTERS] for rank, text in sorted(stacks.items())},
            cause=effect.cause,
        )
    return StacksFailed(
        job=effect.job,
        incident=effect.incident,
        why="; ".join(failures) or "there was no rank to ask",
        cause=effect.cause,
    )


def _done(effect: ClusterCall) -> AnyEvent:
    match effect:
        case Allocate() | HoldForExam():
            return NodeAllocated(job=effect.job, node=effect.node, cause=effect.cause)
        case Release():
            return NodeReleased(node=effect.node, cause=effect.cause)
        case Distrust():
            return NodeDistrusted(node=effect.node, cause=effect.cause)
        case Trust():
            return NodeTrusted(node=effect.node, cause=effect.cause)


def _failed(effect: ClusterCall, error: TemporaryError | PermanentError) -> AnyEvent:
    why = str(error)
    if isinstance(effect, Allocate | HoldForExam):
        return AllocationFailed(
            job=effect.job,
            node=effect.node,
            why=why,
            unfit=isinstance(error, UnfitError),
            barred=isinstance(error, BarredError),
            late=isinstance(error, UnfitError) and error.late,
            others=error.others if isinstance(error, UnfitError) else {},
            cause=effect.cause,
        )
    call = type(effect).__name__.lower()
    return ClusterCallFailed(call=call, node=effect.node, why=why, cause=effect.cause)

"""How many files somebody meets who follows one heartbeat to what is done about it.

The real sessions, detectors, loop and core; a heartbeat tells of a GPU that fell off the bus, its
node is evicted, and its executor is told. What it meets is printed (`pytest -s`).
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from driver_loops import InMemory, LoopClock
from waiting import eventually_async

import holdfast.driver
from holdfast.bench.scale.decided import JOB, Fleet
from holdfast.driver.adapters.no_cluster import NoCluster
from holdfast.driver.adapters.websocket.link import Link
from holdfast.driver.adapters.websocket.sessions import Sessions
from holdfast.driver.cluster.effect_runner import EffectRunner
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.events import JobSubmitted, Plan
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Phase
from holdfast.driver.loop import Loop
from holdfast.driver.watch import Watch
from holdfast.protocol.messages import (
    FromDaemon,
    Heartbeat,
    Hello,
    LogHit,
    Task,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

OURS = Path(next(iter(holdfast.driver.__path__))).parent
MOST_OF_CORE, MOST = 28, 52
"""Of the core, and in all, as counted when this was written: fewer are better, more are to be
argued for, see docs/decisions/what-a-commit-costs.md. (Detectors for which this heartbeat has no
news are asked, so that nobody else need know what it looks at.)"""
DECODER: Decoder[object] = Decoder(FromDaemon)
FALLEN = LogHit(source="kernel", rule="xid", line="NVRM: Xid: 79", xid=79)


@contextmanager
def met() -> Iterator[dict[str, None]]:
    """The files of ours in which a function is called meanwhile, in their order."""
    files: dict[str, None] = {}

    def called(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(OURS):
            files[str(path.relative_to(OURS))] = None

    sys.setprofile(called)
    try:
        yield files
    finally:
        sys.setprofile(None)


class Walk:
    """A driver whose cluster and executors answer at once, and a job of two nodes that runs."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.loop = Loop(InMemory(), clock=LoopClock(), policy=Policy())
        self.fleet = Fleet(3, self.loop.post)
        self.perform, self.instructed = self.fleet.perform, asyncio.Event()
        self.sessions = Sessions(
            refusal=_nobody,
            watch=Watch(),
            emit=self.loop.post,
            term=lambda: self.loop.state.term,
            now=self.loop.now,
            heartbeat_period_s=0.5,
        )
        self._effects = EffectRunner(
            cluster=NoCluster(),
            nodes=self.sessions,
            emit=self.loop.post,
            term=lambda: self.loop.state.term,
            group=group,
        )

    async def running(self, group: asyncio.TaskGroup) -> asyncio.Task[None]:
        await self.loop.start(
            perform=lambda effect: self.perform(effect), follow=lambda state: None
        )
        task = group.create_task(self.loop.run())
        self.fleet.come()
        plan = Plan(task=Task(command=("train",), workdir="."), nodes=2, ranks_per_node=1)
        self.loop.post(JobSubmitted(job=JOB, plan=plan))
        await eventually_async(self._runs)
        self.perform = self._really
        return task

    def _runs(self) -> bool:
        job = self.loop.state.jobs.get(JOB)
        return job is not None and job.phase is Phase.RUNNING

    def _really(self, effect: AnyEffect) -> None:
        """The walk ends where an executor is told."""
        self._effects.start(effect)
        if isinstance(effect, Instruct):
            self.instructed.set()
            sys.setprofile(None)

    def end(self) -> None:
        self._effects.leave()


async def _nobody(node: str, token: str) -> str:
    return ""


async def test_a_heartbeat_is_followed_to_its_effect_through_few_files() -> None:
    async with asyncio.TaskGroup() as group:
        walk = Walk(group)
        task = await walk.running(group)
        node = walk.loop.state.jobs[JOB].places[0]
        link = Link(None, DECODER, node=node, process="daemon")  # type: ignore[arg-type]
        hello = Hello(node=node, process="daemon", incarnation="d", protocol=PROTOCOL_VERSION)
        walk.sessions.daemons.opened(node, link, hello)
        frame = encode(
            Heartbeat(node=node, incarnation="d", sequence=1, uptime_s=9.0, logs=(FALLEN,))
        )
        with met() as files:
            walk.sessions.daemons.received(node, link, DECODER.decode(frame))
            await walk.instructed.wait()
        walk.end()
        task.cancel()
    core = [each for each in files if each.startswith("driver/core/")]
    print(f"\n{len(core)} files of the core, {len(files)} in all:", *files, sep="\n  ")
    assert len(core) <= MOST_OF_CORE
    assert len(files) <= MOST

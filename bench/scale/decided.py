"""A job as large as the cluster starts, loses all its ranks, starts again and ends: what it cost.
Another one's nodes are all to be free, and it is suspended; of a third's no executor comes.

A script: `decided.py NODES` prints a line of JSON for each stage. The driver's own loop and journal
(SQLite), in one process; the cluster and the executors answer at once, each as a real one would.
It needs of Holdfast what earlier commits have as well, for they are measured by it, too.
"""

import asyncio
import json
import sys
import time
import types
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core import effects as f
from holdfast.driver.core import events as e
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.loop import Loop
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Desired, RankError, RankStatus, Rendezvous, Task

try:
    from holdfast.kit.garbage import kept
except ImportError:  # an earlier commit has it where it was used
    from holdfast.driver.main import _kept as kept  # type: ignore[attr-defined, no-redef]

JOB, DRAINED, RANKS_EACH = "job", "drained", 8
FREE_IN_S = 86_400.0
"""Until nodes have to be free: longer than the stages take."""
CONNECT_S = 1.0
"""Where no executor comes: so long it is waited for."""
LONGEST_S = 400.0
"""Of a stage: what takes longer is told as not having come."""


class Fleet:
    """The cluster, and one executor a node, which does at once what it is told."""

    def __init__(self, nodes: int, post: Callable[[e.AnyEvent], None]) -> None:
        self.names = [f"node-{k}" for k in range(nodes)]
        self.running: dict[str, Desired] = {}
        self._quiet: dict[str, int] = {}
        self._post = post
        self.executors = True  # False: the cluster starts none

    def come(self) -> None:
        for name in self.names:
            self._post(e.NodeAppeared(node=name, rack=f"rack-{_number(name) % 64}"))
            if self.executors:
                self._connect(name)

    def _connect(self, name: str) -> None:
        self._post(e.ExecutorConnected(node=name, incarnation=f"x-{name}", address="10.0.0.1"))

    def perform(self, effect: f.AnyEffect) -> None:
        match effect:
            case f.Allocate(job=job, node=node, cause=cause) if self.executors:
                self._post(e.NodeAllocated(job=job, node=node, cause=cause))
            case f.Release(node=node, cause=cause):
                self._post(e.NodeReleased(node=node, cause=cause))
            case f.TakeStacks(job=job, incident=number, cause=cause):
                self._post(e.StacksTaken(job=job, incident=number, stacks={}, cause=cause))
            case f.Instruct(desired=desired) if self.executors and desired.job is not None:
                self._obey(desired, desired.job)
            case _:
                pass

    def _obey(self, told: Desired, job: str) -> None:
        node, epoch = told.node, told.epoch
        if told.seats and (node not in self.running or self.running[node].epoch != epoch):
            self.running[node] = told
            self._post(e.RanksRunning(job=job, epoch=epoch, node=node))
        elif not told.seats and self._quiet.get(node) != epoch:
            self._quiet[node] = epoch
            self._post(e.NodeQuiet(job=job, epoch=epoch, node=node))
            if told.host_rendezvous:
                at = Rendezvous(address="10.0.0.1", port=29_500)
                self._post(e.RendezvousReady(job=job, epoch=epoch, node=node, rendezvous=at))

    def drain(self) -> None:
        for name in self.names:
            self._post(e.NodeMaintainRequested(node=name, reason="drain", within_s=FREE_IN_S))

    def exit(self, status: Callable[[int], RankStatus]) -> None:
        """All ranks of all nodes end; nodes tell it one after the other."""
        running, self.running = self.running, {}
        for node, told in running.items():
            exits = tuple(status(seat.rank) for seat in told.seats if seat.node == node)
            epoch = told.epoch
            self._post(e.RanksExited(job=JOB, epoch=epoch, node=node, exits=exits, step=40))


def _number(name: str) -> int:
    return int(name.rsplit("-", 1)[1])


def _killed(rank: int) -> RankStatus:
    """Rank 0 is killed, and all others die of it."""
    if rank == 0:
        return RankStatus(rank=rank, state="exited", signal=9, order=1, step=40)
    error = RankError(message="lost", exception="DistBackendError", in_collective=True)
    return RankStatus(rank=rank, state="exited", exit_code=1, error=error, order=1, step=40)


def _done(rank: int) -> RankStatus:
    return RankStatus(rank=rank, state="exited", exit_code=0, order=1, step=50)


class Stages:
    """Runs them one after the other on one loop, and takes the cost of each."""

    def __init__(self, nodes: int, folder: Path, policy: Policy | None = None) -> None:
        self._nodes = nodes
        self._journal = open_sqlite(folder / "journal.sqlite")
        self.loop = Loop(self._journal, clock=SystemClock(), policy=policy or Policy())
        self.fleet = Fleet(nodes, self.loop.post)
        self._passes_s: list[float] = []
        self._work = self.loop._work
        self.loop._work = self._timed  # type: ignore[method-assign, assignment]

    @types.coroutine
    def _timed(self, batch: Any) -> Generator[Any, Any, None]:
        """Takes the time of each stretch in which the loop hears nobody, as `_work` does not."""
        working, came = self._work(batch), None
        while True:
            began_s = time.thread_time()
            try:
                waits = working.send(came)
            except StopIteration:
                return
            finally:
                self._passes_s.append(time.thread_time() - began_s)
            came = yield waits

    async def run(self) -> None:
        async with self.working():
            with kept():
                await self._stage("come", self.fleet.come, self._all_there)
            await self._stage("start", self._submit, self._runs)
            await self._stage("exits", lambda: self.fleet.exit(_killed), self._runs)
            await self._stage("end", lambda: self.fleet.exit(_done), self._given_back)
            self._submit(DRAINED)
            await self._until(lambda state: self._runs(state, DRAINED))
            await self._stage("drain", self.fleet.drain, self._all_to_be_left)
            await self._stage("suspend", self._suspend, self._suspended)

    async def run_without_executors(self) -> None:
        """Of a job whose nodes are promised to it none comes."""
        self.fleet.executors = False
        async with self.working():
            with kept():
                self.fleet.come()
                await self._until(self._all_there)
            await self._stage("nobody came", self._submit, self._given_up)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        await self.loop.start(perform=self.fleet.perform, follow=lambda state: None)
        working = asyncio.create_task(self.loop.run())
        try:
            yield
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            self._journal.close()

    async def start(self) -> None:
        """All nodes come, and the job runs on them."""
        self.fleet.come()
        await self._until(self._all_there)
        self._submit()
        await self._until(self._runs)

    async def _stage(
        self, name: str, begin: Callable[[], None], over: Callable[[State], bool]
    ) -> None:
        self._passes_s = []
        cpu_s, wrote = time.process_time(), _written_bytes()
        begin()
        await self._until(over)
        found = {
            "stage": name,
            "nodes": self._nodes,
            "cpu_s": time.process_time() - cpu_s,
            "longest_pass_s": max(self._passes_s),
            "written_bytes": _written_bytes() - wrote,
        }
        print(json.dumps(found), flush=True)

    async def _until(self, over: Callable[[State], bool]) -> None:
        async with asyncio.timeout(LONGEST_S):
            while self.loop._queue.qsize() or not over(self.loop.state):
                await self.loop.committed_beyond(self.loop.sequence)

    def _submit(self, name: str = JOB) -> None:
        task = Task(command=("train",), workdir=".")
        plan = e.Plan(task=task, nodes=self._nodes, ranks_per_node=RANKS_EACH)
        self.loop.post(e.JobSubmitted(job=name, plan=plan))

    def _suspend(self) -> None:
        self.loop.post(e.SuspendRequested(job=DRAINED))

    def _all_there(self, state: State) -> bool:
        return len(state.nodes) == self._nodes

    def _runs(self, state: State, name: str = JOB) -> bool:
        job = state.jobs.get(name)
        running = len(self.fleet.running) == self._nodes
        return job is not None and job.phase is Phase.RUNNING and running

    def _given_back(self, state: State) -> bool:
        return state.jobs[JOB].phase is Phase.SUCCEEDED and _nobodys(state)

    def _all_to_be_left(self, state: State) -> bool:
        return len(state.jobs[DRAINED].leaving) == self._nodes

    def _suspended(self, state: State) -> bool:
        return state.jobs[DRAINED].phase is Phase.SUSPENDED and _nobodys(state)

    def _given_up(self, state: State) -> bool:
        job = state.jobs.get(JOB)
        barred = job is not None and job.barred is not None and job.phase is Phase.PENDING
        return barred and _nobodys(state)


def _nobodys(state: State) -> bool:
    """All are given back: the last ones as well, of 1,000 they are a quarter."""
    return all(node.job is None and not node.releasing for node in state.nodes.values())


def _written_bytes() -> int:
    """What this process has written so far, wherever to."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with TemporaryDirectory() as folder:
        asyncio.run(Stages(int(sys.argv[1]), Path(folder)).run())
    with TemporaryDirectory() as folder:
        nobody = Stages(int(sys.argv[1]), Path(folder), Policy(connect_s=CONNECT_S))
        asyncio.run(nobody.run_without_executors())


if __name__ == "__main__":
    main()

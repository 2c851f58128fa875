"""A job with a crash and a lost node, driven by the loop on a real journal and scripted nodes.

`World` stands for cluster and executors: it outlives drivers, as they do.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.batch import inbox
from holdfast.driver.cluster.effect_runner import EffectRunner
from holdfast.driver.core.events import (
    AnyEvent,
    ExecutorConnected,
    ExecutorDisconnected,
    JobSubmitted,
    NodeAppeared,
    NodeQuiet,
    NodeVanished,
    Plan,
    ProgressSeen,
    RanksExited,
    RanksRunning,
    RendezvousReady,
)
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.loop import Loop
from holdfast.driver.ports import (
    Fact,
    Key,
    PermanentError,
    TemporaryError,
)
from holdfast.kit.clock import SystemClock
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import (
    Desired,
    Hello,
    Observed,
    RankStatus,
    Rendezvous,
    Snapshot,
    Stored,
    Task,
)

POLICY = Policy(gather_s=0.005, echo_s=0.01)
TASK = Task(command=("train",), workdir=".", nodes=2, ranks_per_node=1)
CRASH_STEP, LOSS_STEP, LAST_STEP, STORE_EVERY = 5, 10, 15, 4


class ScriptedNode:
    """An executor that does as told, and remembers across drivers what an executor remembers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.present = True
        self.desired: Desired | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        self.exits: tuple[RankStatus, ...] = ()

    @property
    def ranks(self) -> list[int]:
        seats = self.desired.seats if self.desired else ()
        return [seat.rank for seat in seats if seat.node == self.name]


class World:
    """Cluster and executors of a small job whose faults come at given steps."""

    def __init__(self, *, standbys: int = 1) -> None:
        self.nodes = {name: ScriptedNode(name) for name in ("node-1", "node-2", "node-3")}
        self.nodes["node-3"].present = standbys > 0
        self.plan = Plan(task=TASK, nodes=2, ranks_per_node=1, standbys=standbys)
        self.emit: Callable[[AnyEvent], None] = lambda event: None
        self.step = 0
        self.best = 0
        self.told_progress = 0
        self.stored: tuple[Stored, ...] = ()
        self.faults_left = {CRASH_STEP, LOSS_STEP}
        self.restored: list[int] = []
        self.epochs: list[int] = []

    # ------------------------------------------------------------ the ports

    async def facts(self) -> AsyncIterator[Fact]:
        raise NotImplementedError
        yield

    async def allocate(self, job: str, node: str) -> None:
        if not self.nodes[node].present:
            raise PermanentError(f"{node} is gone")

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        pass

    def give_up(self, node: str) -> None:
        pass

    async def release(self, node: str) -> None:
        pass

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        pass

    async def trust(self, node: str) -> None:
        pass

    def hello(self, node: str) -> Hello | None:
        return None

    def observed(self, node: str) -> Observed | None:
        return None

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        raise TemporaryError("no stacks here")

    async def log(self, *_: object, **__: object) -> tuple[bytes, int]:
        raise TemporaryError("no logs here")

    def instruct(self, desired: Desired) -> None:
        node = self.nodes[desired.node]
        had = node.desired
        if had and (desired.term, desired.epoch) < (had.term, had.epoch):
            raise AssertionError(f"an older order: {desired} after {had}")
        if had is None or had.epoch != desired.epoch or had.seats != desired.seats:
            node.exits = ()
        node.desired = desired
        if node.present:
            self.report(node)

    # ------------------------------------------------------------ what executors report

    def report(self, node: ScriptedNode) -> None:
        """Everything that there is to see, again and again: events are levels."""
        told = node.desired
        if told is None or told.job is None:
            return
        where = {"job": told.job, "epoch": told.epoch, "node": node.name}
        if told.host_rendezvous:
            self.emit(
                RendezvousReady(**where, rendezvous=Rendezvous(address=node.name, port=told.epoch))
            )
        if not told.seats:
            self.emit(NodeQuiet(**where, snapshots=node.snapshots, stored=self.stored))
        elif node.ranks:
            self.emit(RanksRunning(**where))
            if node.exits:
                self.emit(RanksExited(**where, exits=node.exits, step=self.step))

    def connect(self, emit: Callable[[AnyEvent], None]) -> None:
        """A (new) driver is there: facts first, then every executor connects and reports."""
        self.emit = emit
        self.told_progress = 0
        for node in self.nodes.values():
            if node.present:
                self.join(node)
            else:
                emit(NodeVanished(node=node.name, why="its lease is over"))

    def join(self, node: ScriptedNode) -> None:
        """The node is there, its executor connects and reports."""
        node.present = True
        epoch = node.desired.epoch if node.desired else 0
        connected = ExecutorConnected(
            node=node.name, incarnation=f"{node.name}-a", address=node.name, epoch=epoch
        )
        self.emit(NodeAppeared(node=node.name))
        self.emit(connected)
        self.report(node)

    # ------------------------------------------------------------ training

    async def train(self) -> None:
        """Complete a step whenever all ranks of one epoch run, and break where it is due."""
        while True:
            await asyncio.sleep(0.001)
            seated = [node for node in self.nodes.values() if node.ranks and node.present]
            epochs = {node.desired.epoch for node in seated if node.desired}
            if len(seated) == 2 and len(epochs) == 1 and not any(n.exits for n in seated):
                self._complete_step(seated, epochs.pop())

    def _complete_step(self, seated: list[ScriptedNode], epoch: int) -> None:
        desired = seated[0].desired
        assert desired is not None
        if not self.epochs or self.epochs[-1] != epoch:
            self.epochs.append(epoch)
            self.step = desired.restore.step if desired.restore else 0
            self.restored.append(self.step)
        self.step += 1
        for node in seated:
            new = tuple(Snapshot(rank=r, step=self.step, epoch=epoch) for r in node.ranks)
            node.snapshots = (*node.snapshots[-2:], *new)
        if self.step % STORE_EVERY == 0:
            self.stored = (*self.stored, Stored(step=self.step, epoch=epoch))
        if self.step > self.best and self.told_progress != epoch:
            self.told_progress = epoch
            self.emit(ProgressSeen(job="job", epoch=epoch, step=self.step))
        self.best = max(self.best, self.step)
        self._break(seated)

    def _break(self, seated: list[ScriptedNode]) -> None:
        if self.step == LAST_STEP:
            for node in seated:
                self._exit(node, exit_code=0)
        elif self.step in self.faults_left:
            self.faults_left.remove(self.step)
            victim = next(node for node in seated if 1 in node.ranks)
            if self.step == CRASH_STEP:
                self._exit(victim, signal=9)
            else:
                self._lose(victim)

    def _lose(self, victim: ScriptedNode) -> None:
        """Gone for good; where there is no standby, another node comes when one is wanted."""
        victim.present = False
        self.emit(ExecutorDisconnected(node=victim.name, incarnation=f"{victim.name}-a"))
        self.emit(NodeVanished(node=victim.name, why="its lease is over"))

    def follow(self, state: State) -> None:
        """A node comes once the job waits for one."""
        job, late = state.jobs.get("job"), self.nodes["node-3"]
        if job and job.phase is Phase.REPLACING and not late.present:
            self.join(late)

    def _exit(self, node: ScriptedNode, **how: int) -> None:
        node.exits = tuple(RankStatus(rank=r, state="exited", order=1, **how) for r in node.ranks)
        self.report(node)


class Died(Exception):
    """The driver was killed here."""


async def drive(
    journal: SqlJournal,
    world: World,
    until: Callable[[State], bool],
    *,
    before_effects: Callable[[State], None] = lambda state: None,
) -> Loop:
    """One driver's life. `before_effects` is called between a commit and its effects."""
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    done = asyncio.Event()

    def follow(state: State) -> None:
        before_effects(state)
        world.follow(state)
        if until(state):
            done.set()

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        effects = EffectRunner(
            cluster=world, nodes=world, emit=loop.post, term=lambda: loop.state.term, group=group
        )
        await loop.start(perform=effects.start, follow=follow)
        world.connect(loop.post)
        tasks = [group.create_task(loop.run()), group.create_task(world.train())]
        if "job" not in loop.state.jobs:
            await loop.request(JobSubmitted(job="job", plan=world.plan), key=Key("key", b"digest"))
        await done.wait()
        for task in tasks:
            task.cancel()
    return loop


def over(state: State) -> bool:
    return "job" in state.jobs and state.jobs["job"].finished


def outcome(world: World, state: State) -> dict[str, object]:
    """What must be the same however often the driver died meanwhile.

    Incidents may be fewer: a fault that comes while the driver is away joins the one still open.
    """
    job = state.jobs["job"]
    return {
        "phase": job.phase,
        "attempt": job.attempt,
        "evicted": [name for name, node in state.nodes.items() if node.quarantined],
        "open": [incident.id for incident in state.incidents.values() if incident.open],
        "restored": world.restored,
        "trained": world.step,
    }


@pytest.mark.parametrize("standbys", [1, 0], ids=["standby", "late node"])
async def test_a_job_outlives_a_crash_and_the_loss_of_a_node(
    open_journal: Callable[[str], SqlJournal], standbys: int
) -> None:
    world, journal = World(standbys=standbys), open_journal("journal")
    loop = await drive(journal, world, over)
    assert outcome(world, loop.state) == {
        "phase": Phase.SUCCEEDED,
        "attempt": 3,
        "evicted": ["node-2"],
        "open": [],
        "restored": [0, CRASH_STEP, LOSS_STEP - LOSS_STEP % STORE_EVERY],
        "trained": LAST_STEP,
    }
    kinds = [incident.kind for incident in loop.state.incidents.values()]
    assert kinds == [Kind.RANK_CRASHED, Kind.NODE_LOST]
    entries = journal.entries()
    assert [each.sequence for each in entries] == list(range(1, len(entries) + 1))
    assert all(effect.cause == each.sequence for each in entries for effect in each.effects)
    assert all(before.now <= after.now for before, after in itertools.pairwise(entries))


@pytest.mark.parametrize("standbys", [1, 0], ids=["standby", "late node"])
async def test_a_driver_killed_between_any_commit_and_its_effects_changes_nothing(
    open_journal: Callable[[str], SqlJournal], standbys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_BATCH", 1)  # else a slow disk hides a phase in a batch
    world = World(standbys=standbys)
    lived: list[Phase] = []
    loop = await drive(open_journal("whole"), world, over, before_effects=phases_into(lived))
    wanted = outcome(world, loop.state)
    assert wanted["phase"] is Phase.SUCCEEDED
    died_in: set[Phase] = set()
    for fatal in range(1, len(lived)):
        world, lived = World(standbys=standbys), []
        with contextlib.suppress(ExceptionGroup, Died):
            kill = phases_into(lived, fatal=fatal)
            await drive(open_journal(f"killed-{fatal}"), world, over, before_effects=kill)
        died_in.update(lived[fatal - 1 :])
        loop = await drive(open_journal(f"killed-{fatal}"), world, over)
        assert loop.state.term == 2
        assert outcome(world, loop.state) == wanted, f"killed after commit {fatal}, {lived[-1:]}"
    assert died_in >= {Phase.PENDING, Phase.ALLOCATING, Phase.STARTING, Phase.RUNNING}
    assert died_in >= {Phase.SUSPENDING, Phase.RESTORING}
    assert standbys or Phase.REPLACING in died_in


def phases_into(lived: list[Phase], *, fatal: int = 0) -> Callable[[State], None]:
    """Note the job's phase at each commit, and die after the one numbered `fatal`."""

    def note(state: State) -> None:
        job = state.jobs.get("job")
        lived.append(job.phase if job else Phase.PENDING)
        if len(lived) == fatal:
            raise Died

    return note

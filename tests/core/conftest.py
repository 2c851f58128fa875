"""A cluster in a few words: events go in, the decision core's state and effects come out."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from signal import SIGABRT
from types import MappingProxyType

import pytest

from holdfast.driver.batch.deadlines import next_deadline, turns_of
from holdfast.driver.core import events as e
from holdfast.driver.core.decide import decide
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.evidence import book
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.fact import Bearing, Fact
from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.driver.core.turn import Decision
from holdfast.driver.follow.patience import patience_of
from holdfast.protocol.faults import Blame
from holdfast.protocol.messages import (
    Desired,
    DiagnosticResult,
    RankError,
    RankStatus,
    Rendezvous,
    Snapshot,
    Stored,
    Task,
)

TASK = Task(command=("train",), workdir=".")
STORING = Task(
    command=("train",), workdir=".", store_url="file:///store/job", store_interval_steps=10
)


class Life:
    """One driver's state over time. Every method is something that happens to it."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.state = State()
        self.census = Census()
        self.now = 0.0
        self.policy = policy or Policy()
        self.effects: list[AnyEffect] = []
        self.whys: list[str] = []

    # ------------------------------------------------------------ looking

    @property
    def job(self) -> Job:
        return next(iter(self.state.jobs.values()))

    @property
    def phase(self) -> Phase:
        return self.job.phase

    @property
    def incident(self) -> Incident:
        """The newest."""
        return self.state.incidents[max(self.state.incidents)]

    @property
    def evicted(self) -> list[str]:
        return [name for name, node in self.state.nodes.items() if node.quarantined]

    @property
    def paid(self) -> list[Blame]:
        """From whose budget each restart was, the latest last."""
        return [fact.payer for fact in self.job.facts if fact.payer is not None]

    @property
    def patience(self) -> dict[str, int]:
        """Restarts for standing still, by where, as the detectors are told."""
        return patience_of(self.job.facts, self.now)

    @property
    def moved(self) -> list[str]:
        """Nodes that the job left without proof, in order."""
        facts = (fact for fact in self.job.facts if fact.fault is None)
        return [fact.about.node.name for fact in facts if fact.about.node is not None]

    def blamed(self, node: str) -> list[str]:
        """Kinds of the faults that were put down to a node."""
        return [fact.what for fact in book.blamed(self.state.nodes[node].record.facts, -inf)]

    def acquittals(self, node: str) -> list[Fact]:
        facts = self.state.nodes[node].record.facts
        return [fact for fact in facts if fact.bearing is Bearing.ACQUITS]

    def told(self, node: str) -> Desired:
        """The newest desired state of the node."""
        orders = [f.desired for f in self.effects if isinstance(f, Instruct)]
        return [desired for desired in orders if desired.node == node][-1]

    def ordered(self, kind: type[AnyEffect]) -> list[AnyEffect]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    # ------------------------------------------------------------ happening

    def do(self, event: e.AnyEvent, *, after_s: float = 0.01) -> Decision:
        self.now += after_s
        decision = decide(self.state, event, self.now, self.policy, self.census)
        self.state = decision.state
        self.effects += decision.effects
        self.whys.append(decision.why)
        return decision

    def tick(self, *, after_s: float = 0.01) -> Decision:
        """Look at each who is due; the last decision."""
        self.now += after_s
        due = turns_of(self.state, e.Ticked(), self.now)
        return [self.do(each, after_s=0.0) for each in due][-1]

    def wait(self, *, until_s: float | None = None) -> None:
        """Let time pass to the next deadline, or through all up to `until_s`."""
        while (due := next_deadline(self.state)) is not None:
            if until_s is not None and due > until_s:
                break
            self.now = max(self.now, due)
            self.tick(after_s=0.0)
            if until_s is None:
                return
        if until_s is not None:
            self.now = max(self.now, until_s)

    def node(self, name: str, rack: str = "") -> None:
        self.do(e.NodeAppeared(node=name, rack=rack))
        self.connect(name, f"{name}-first")

    def connect(self, name: str, incarnation: str) -> None:
        address = f"10.0.0.{name[1:]}"
        self.do(e.ExecutorConnected(node=name, incarnation=incarnation, address=address))

    def submit(self, name: str = "job", **plan: object) -> None:
        wanted: dict[str, object] = {"task": TASK, "nodes": 2, "ranks_per_node": 2} | plan
        self.do(e.JobSubmitted(job=name, plan=e.Plan(**wanted)))  # type: ignore[arg-type]

    def answer(
        self,
        name: str = "job",
        *,
        snapshots: Iterable[tuple[int, int]] = (),
        stored: Iterable[tuple[int, int]] = (),
        looking: str = "",
        damaged: Iterable[tuple[int, int]] = (),
        store_error: str = "",
        agent_silent: str = "",
        saved_bytes: int = 0,
        silent: Iterable[str] = (),
        empty: Iterable[str] = (),
        peer_ports: Mapping[str, int] = MappingProxyType({}),
        runs: bool = True,
    ) -> None:
        """Every node does and says what it was told, once; saves are (step, epoch).

        `empty`: nodes that have nothing in memory. `runs`: their ranks come up.
        """
        away, bare = set(silent), set(empty)
        for node in self.state.jobs[name].members:
            if not self.state.nodes[node].allocated:
                self.do(e.NodeAllocated(job=name, node=node))
        for node in self.state.jobs[name].members:
            job = self.state.jobs[name]
            if node not in away and node in job.members:
                held = tuple(
                    Snapshot(rank=rank, step=step, epoch=epoch)
                    for rank in range(job.world_size)
                    for step, epoch in snapshots
                )
                whole = tuple(Stored(step=step, epoch=epoch) for step, epoch in stored)
                bad = tuple(Stored(step=step, epoch=epoch) for step, epoch in damaged)
                self.do(
                    e.NodeQuiet(
                        job=name,
                        epoch=job.epoch,
                        node=node,
                        snapshots=() if node in bare else held,
                        peer_port=peer_ports.get(node, 0),
                        stored=whole if node == job.host else (),
                        looking=looking if node == job.host else "",
                        damaged=bad if node == job.host else (),
                        store_error=store_error if node == job.host else "",
                        agent_silent=agent_silent if node == job.host else "",
                    )
                )
                if node == job.host and saved_bytes:
                    self.do(e.SaveProgressed(job=name, epoch=job.epoch, taken_bytes=saved_bytes))
        if name not in self.state.jobs:
            return
        job = self.state.jobs[name]
        if job.host and job.host not in away:
            store = Rendezvous(address="10.0.0.1", port=20_000 + job.epoch)
            self.do(e.RendezvousReady(job=name, epoch=job.epoch, node=job.host, rendezvous=store))
        for node in job.nodes if runs and self.state.jobs[name].seated else ():
            if node not in away:
                self.do(e.RanksRunning(job=name, epoch=job.epoch, node=node))

    def stores(self, step: int, epoch: int | None = None, name: str = "job") -> None:
        """A checkpoint of the job has its manifest in the store."""
        job = self.state.jobs[name]
        where = {"job": name, "node": job.host, "epoch": epoch or job.epoch}
        self.do(e.CheckpointStored(step=step, **where))  # type: ignore[arg-type]

    def progress(self, step: int | None, name: str = "job") -> None:
        epoch = self.state.jobs[name].epoch
        self.do(e.ProgressSeen(job=name, epoch=epoch, step=step))

    def dies(
        self,
        rank: int,
        *,
        name: str = "job",
        code: int = 1,
        signal: int | None = None,
        exception: str = "",
        echo: bool = False,
        unstartable: str = "",
        step: int | None = None,
        own_step: int | None = None,
        saved: int | None = None,
        memory_limit_bytes: int | None = None,
        sealed: bool = False,
        judged: bool = True,
    ) -> None:
        """A rank ends badly, and the gather window closes. `saved`: its steps count from its start,
        and its script saved so many of them. `memory_limit_bytes`: it was killed for
        memory, of which there was so much; 0: without a limit. `sealed`: it left snapshots.
        """
        job = self.state.jobs[name]
        error = None
        if exception or echo:
            text = f"Traceback: {exception}"
            error = RankError(
                message=exception, traceback=text, exception=exception, in_collective=echo
            )
        if unstartable:
            error = RankError(message=unstartable, not_startable=True)
        status = RankStatus(
            rank=rank,
            state="exited",
            exit_code=None if signal else code,
            signal=signal,
            error=error,
            order=1,
            step=own_step,
            saved=saved,
            out_of_memory=memory_limit_bytes is not None,
            memory_limit_bytes=memory_limit_bytes or 0,
            sealed=sealed,
        )
        node = job.places[rank // job.plan.ranks_per_node]
        self.do(e.RanksExited(job=name, epoch=job.epoch, node=node, exits=(status,), step=step))
        if judged:
            waits = echo or signal == SIGABRT
            self.wait(until_s=self.now + (self.policy.echo_s if waits else self.policy.gather_s))

    def tests_end(
        self, *, bad: str = "", slow: str = "", cut: tuple[str, ...] = (), name: str = "job"
    ) -> None:
        """All tests are over: those with `bad` failed, the links of `slow` give a tenth; those of
        the two that are `cut` off from each other failed, too.
        """
        diagnosis = self.state.exams.get(self.state.jobs[name].exam or "")
        assert diagnosis is not None
        for node, orders in diagnosis.orders.items():
            results = tuple(
                DiagnosticResult(
                    id=order.id,
                    test=order.test,
                    node=node,
                    round=order.round,
                    members=order.members,
                    ok=bad not in (order.members or (node,))
                    and not (cut and set(cut) == set(order.members)),
                    value=1.0 if slow in order.members else 10.0,
                    unit="MB/s",
                )
                for order in orders
            )
            self.do(e.DiagnosticEnded(node=node, id=diagnosis.id, results=results))

    def ends_well(self, name: str = "job", *, sealed: bool = False) -> None:
        job = self.state.jobs[name]
        for place, node in enumerate(job.places):
            first = place * job.plan.ranks_per_node
            exits = tuple(
                RankStatus(rank=first + k, state="exited", exit_code=0, sealed=sealed)
                for k in range(job.plan.ranks_per_node)
            )
            self.do(e.RanksExited(job=name, epoch=job.epoch, node=node, exits=exits))

    def lose(self, node: str) -> None:
        """The node is gone, by two sources."""
        incarnation = self.state.nodes[node].incarnation
        self.do(e.NodeVanished(node=node, why="its lease is over"))
        self.do(e.ExecutorDisconnected(node=node, incarnation=incarnation))

    def silence(self, *nodes: str) -> None:
        for node in nodes:
            incarnation = self.state.nodes[node].incarnation
            self.do(e.ExecutorDisconnected(node=node, incarnation=incarnation))


@pytest.fixture(autouse=True, scope="module")
def _two_tests(two_tests: None) -> None:
    """What is counted and recorded here is with these."""


@pytest.fixture
def storing(training: Callable[..., Life]) -> Life:
    """A job that trains and has checkpoints in a store: none yet."""
    return training(task=STORING)


@pytest.fixture
def life() -> Life:
    """A driver that has just started, without nodes."""
    started = Life()
    started.do(e.DriverStarted(term=1))
    return started


@pytest.fixture
def training(life: Life) -> Callable[..., Life]:
    """Make a job that trains: `training(nodes=2, standbys=1, spare=0)`, step 1 completed."""

    def make(*, nodes: int = 2, standbys: int = 0, spare: int = 0, **plan: object) -> Life:
        for k in range(nodes + standbys + spare):
            life.node(f"n{k}")
        life.submit(nodes=nodes, standbys=standbys, **plan)
        life.answer()
        life.progress(1)
        assert life.phase is Phase.RUNNING
        return life

    return make

"""The cluster of a case, around the driver's real core: nodes, calls to the cluster, one job.

Made by `play`; what befalls the job's ranks is in `course`. Calls succeed, and take what they take
in life: an executor on a node that had none comes after `COLD_S`.
"""

from collections.abc import Callable, Mapping
from functools import partial

from holdfast.driver.core import events as e
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.restore_point import Tainted
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator.agenda import Agenda
from holdfast.lab.simulator.cases.books import CaseBooks
from holdfast.lab.simulator.cases.drawing import Case
from holdfast.lab.simulator.cases.node import CaseNode
from holdfast.lab.simulator.cases.training import Point, Training
from holdfast.lab.simulator.driver import Driver
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.protocol.messages import (
    Desired,
    DiagnosticOrder,
    DiagnosticResult,
    Snapshot,
    Task,
)

JOB = "job"
CALL_S, TOLD_S = 0.2, 0.01
COLD_S = 100.0
"""From an allocation until the executor is there: images, libraries. (The driver waits 120 s.)"""
START_S = 4.0
"""From the start of ranks until they train: they meet, and restore."""
KEEPS = 8
"""Checkpoints that the store keeps."""
FALSE_ALARMS = 0.01
"""Chance that a healthy node, or a healthy pair, fails one test."""


class CaseWorld:
    """All that is, in one life of a case. `began` is called when ranks begin to train."""

    def __init__(self, case: Case, began: Callable[[Training], None]) -> None:
        self.case, self.cause = case, case.cause
        self.books = CaseBooks(case, self.cause)
        self.agenda = Agenda()
        self.streams = Streams(case.seed)
        self.nodes = {name: CaseNode(name, self) for name in case.all_nodes}
        self.training: Training | None = None
        self.store: list[Point] = []
        self.over = False  # nothing more is to be seen
        self.spoiled_s = -1.0  # when the driver last gave a restore point up
        self.driver = Driver(self, self.agenda, self.streams, Policy())
        self.driver.checked = False
        self._began = began
        self._table: tuple[object, dict[str, tuple[int, ...]]] = ((), {})

    @property
    def now(self) -> float:
        return self.agenda.now

    def plan(self, version: int) -> e.Plan:
        task = Task(
            command=("train",),
            workdir=".",
            env={"CODE": str(version)},
            memory_interval_steps=self.case.memory_every,
            store_interval_steps=self.case.store_every,
            store_url="file:///store",
            retention=KEEPS,
        )
        return e.Plan(
            task=task,
            nodes=self.case.nodes,
            ranks_per_node=self.case.ranks_per_node,
            standbys=self.case.standbys,
            grace_s=5.0,
        )

    # ------------------------------------------------------------ what the driver does

    def list_nodes(self) -> None:
        for name in self.nodes:
            self.driver.receive(e.NodeAppeared(node=name, rack="rack-0", unmarked=True))

    def has_line(self, node: str) -> bool:
        return self.nodes[node].connected

    def tell(self, desired: Desired) -> None:
        self.agenda.after(TOLD_S, partial(self._told, desired))

    def _told(self, desired: Desired) -> None:
        node = self.nodes[desired.node]
        if node.connected and not node.cut:
            node.obey(desired)

    def call(self, node: str, outcome: e.AnyEvent, **how: bool) -> None:
        self.agenda.after(CALL_S, partial(self._called, self.nodes[node], outcome))

    def _called(self, node: CaseNode, outcome: e.AnyEvent) -> None:
        if isinstance(outcome, e.NodeAllocated):
            node.wanted, node.lives = True, node.lives + 1
            self.agenda.after(COLD_S, partial(self._comes, node, node.lives))
        elif isinstance(outcome, e.NodeReleased):
            node.wanted = False
            self.disconnect(node)
            node.end_executor()
        self.driver.receive(outcome)

    def _comes(self, node: CaseNode, life: int) -> None:
        if node.wanted and node.lives == life and not node.connected:
            self.connect(node)

    def connect(self, node: CaseNode) -> None:
        """Its executor calls the driver, and says all that it observes."""
        if node.cut or not node.wanted:
            return
        node.connected = True
        _, epoch, generation = node.accepted
        came = e.ExecutorConnected(
            node=node.name,
            incarnation=f"{node.name}-{node.lives}",
            address=f"10.0.0.{node.name}",
            generation=generation,
            epoch=epoch,
        )
        self.driver.receive(came)
        if (told := self.driver.told.get(node.name)) is not None:
            self.tell(told)
        node.report()

    def disconnect(self, node: CaseNode) -> None:
        if node.connected:
            node.connected = False
            gone = f"{node.name}-{node.lives}"
            self.driver.receive(e.ExecutorDisconnected(node=node.name, incarnation=gone))

    def committed(self, before: State, event: e.AnyEvent, decision: Decision) -> None:
        after = decision.state
        for name in decision.nodes:
            old, new = before.nodes.get(name), after.nodes[name]
            if new.quarantined and not (old is not None and old.quarantined):
                self.books.out.append(name)
        job = after.jobs.get(JOB)
        if job is not None and JOB in decision.jobs:
            statuses = [point.status for point in job.points]
            if any(isinstance(each, Tainted) and each.since_s == self.now for each in statuses):
                self.spoiled_s = self.now
            self.over = self.over or job.finished

    def died(self) -> None:
        raise AssertionError("nobody kills the driver of a case")

    # ------------------------------------------------------------ what nodes ask

    def say(self, node: CaseNode, event: e.AnyEvent) -> None:
        self.driver.receive(event)

    def after(self, delay_s: float, node: CaseNode, what: str) -> None:
        life = node.lives

        def then() -> None:
            if node.lives == life and node.desired is not None:
                getattr(node, what)()

        self.agenda.after(delay_s, then)

    def places(self, desired: Desired) -> Mapping[str, tuple[int, ...]]:
        """By node with ranks, in their order; asked by each of hundreds for one table."""
        if self._table[0] is not desired.seats:
            ranks: dict[str, tuple[int, ...]] = {}
            for seat in desired.seats:
                ranks[seat.node] = (*ranks.get(seat.node, ()), seat.rank)
            self._table = (desired.seats, ranks)
        return self._table[1]

    def start(self, node: CaseNode, desired: Desired) -> Training:
        """The node's ranks start; once all do they train."""
        training = self.training
        if training is None or training.epoch != desired.epoch:
            self.training = training = Training(desired, self.places(desired))
        training.up.add(node.name)
        if len(training.up) == len(training.places) and not training.over:
            self.agenda.after(START_S, partial(self._trains, training))
        return training

    def _trains(self, training: Training) -> None:
        if training is self.training and not training.over:
            nodes = training.attempt.nodes
            self.books.begins(nodes, training.start, self.now)
            self._began(training)

    def left(self, node: CaseNode, training: Training) -> tuple[Snapshot, ...]:
        """A node's ranks end: its peers get no further."""
        self.stand_still(training)
        return training.snapshots(node.name, self.case.memory_every, self.now)

    def stand_still(self, training: Training) -> None:
        """The attempt gets no further; what it has stored by now is there."""
        if training.over:
            return
        training.pause(self.now)
        training.over = True
        if training.start:
            self.store = [point for point in self.store if point[0] <= training.start]
        new = training.stored(self.case.store_every, self.now)[-KEEPS:]
        self.store = [*self.store, *new][-KEEPS:]
        self.books.reached(training.step(self.now), self.now)
        host = next(iter(training.places))
        for step, epoch in new:
            self.driver.receive(e.CheckpointStored(job=JOB, epoch=epoch, node=host, step=step))

    def stored(self) -> tuple[Point, ...]:
        return tuple(self.store)

    def save(self, point: Point) -> None:
        if point not in self.store:
            self.store = sorted([*self.store, point])[-KEEPS:]

    def test(self, order: DiagnosticOrder, node: str) -> DiagnosticResult:
        """What a test finds: the guilty with the chance that the cause has, others rarely."""
        tested = order.members or (node,)
        pair = self.cause.places == 2 and bool(self.cause.exams_find)
        guilty = [each for each in tested if each in self.cause.guilty]
        bad = len(guilty) == 2 if pair else bool(guilty)
        chance = self.cause.exams_find if bad else FALSE_ALARMS
        who = " ".join(sorted(tested))
        fails = self.streams.of(who, f"{order.id} {order.test} {order.round}").random() < chance
        return DiagnosticResult(
            id=order.id,
            test=order.test,
            node=node,
            round=order.round,
            members=order.members,
            ok=not fails,
        )

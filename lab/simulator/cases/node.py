"""A node of a case and its executor: obeys what it was told last, and says what it observes.

Behaves as protocol.messages says. Nothing it says is lost or late: what that does to a driver is
what the lives beside this folder are for.
"""

from collections.abc import Mapping
from typing import Protocol

from holdfast.driver.core import events as e
from holdfast.lab.simulator.cases.training import Point, Training
from holdfast.protocol.messages import (
    Desired,
    DiagnosticOrder,
    DiagnosticResult,
    RankStatus,
    Rendezvous,
    Snapshot,
    Stored,
)

OBEYS_S, GRACE_S = 0.05, 0.5
TESTS_S = 10.0
SAVES_S = 2.0
PORT = 20_000


class Around(Protocol):
    """What a node knows of the world around it."""

    def say(self, node: "CaseNode", event: e.AnyEvent) -> None: ...

    def after(self, delay_s: float, node: "CaseNode", what: str) -> None: ...

    def start(self, node: "CaseNode", desired: Desired) -> Training: ...

    def left(self, node: "CaseNode", training: Training) -> tuple[Snapshot, ...]: ...

    def places(self, desired: Desired) -> Mapping[str, tuple[int, ...]]: ...

    def stored(self) -> tuple[Point, ...]: ...

    def save(self, point: Point) -> None: ...

    def test(self, order: DiagnosticOrder, node: str) -> DiagnosticResult: ...


class CaseNode:
    """What there is of it. `memory` outlives ranks, not the executor."""

    def __init__(self, name: str, around: Around) -> None:
        self.name = name
        self.around = around
        self.lives = 0  # executors that it had
        self.connected = False
        self.cut = False  # nobody hears of it
        self.wanted = False  # somebody has it
        self.accepted = (0, 0, 0)  # term, epoch, generation
        self.desired: Desired | None = None
        self.settled = False
        self.memory: tuple[Snapshot, ...] = ()
        self.training: Training | None = None
        self.exits: dict[int, RankStatus] = {}
        self.results: dict[str, tuple[DiagnosticResult, ...]] = {}
        self.serves = False

    # ------------------------------------------------------------ being told

    def obey(self, desired: Desired) -> None:
        told = (desired.term, desired.epoch, desired.generation)
        if told[:2] < self.accepted[:2] or told[2] <= self.accepted[2]:
            return
        changed = self.desired is None or desired.epoch != self.desired.epoch
        self.accepted, self.desired, self.settled = told, desired, False
        if changed:
            self.exits, self.serves = {}, False
        if desired.forget_job is not None:
            self.memory = ()
        delay_s = OBEYS_S
        if self.training is not None and not self._keeps(desired):
            delay_s += GRACE_S if desired.stop != "kill" else 0.0
            self.end_ranks()
        self.around.after(delay_s, self, "settle")

    def _keeps(self, desired: Desired) -> bool:
        same = self.training is not None and self.training.epoch == desired.epoch
        return same and self._has_seats(desired)

    def _has_seats(self, desired: Desired) -> bool:
        return self.name in self.around.places(desired)

    def end_ranks(self) -> None:
        """They are killed; their snapshots stay."""
        training, self.training = self.training, None
        if training is not None:
            new = self.around.left(self, training)
            steps = sorted({(one.step, one.epoch) for one in (*self.memory, *new)})[-2:]
            kept = [one for one in (*self.memory, *new) if (one.step, one.epoch) in steps]
            self.memory = tuple(dict.fromkeys(kept))

    def end_executor(self) -> None:
        """Its process goes, and what it remembers."""
        self.training, self.memory, self.desired = None, (), None
        self.connected, self.accepted, self.serves = False, (0, 0, 0), False
        self.exits, self.results = {}, {}

    def settle(self) -> None:
        """What is desired is so from now on."""
        desired = self.desired
        if desired is None or self.settled:
            return
        self.settled = True
        if self._has_seats(desired) and self.training is None and not self.exits:
            self.training = self.around.start(self, desired)
        self.serves = self.serves or desired.host_rendezvous
        if any(order.id not in self.results for order in desired.diagnostics):
            self.around.after(TESTS_S, self, "test")
        if desired.save is not None and desired.host_rendezvous:
            self.around.after(SAVES_S, self, "save")
        self.report()

    def test(self) -> None:
        """Its tests are over."""
        orders = self.desired.diagnostics if self.desired is not None else ()
        for order in orders[:1]:
            if order.id not in self.results:
                found = tuple(self.around.test(each, self.name) for each in orders)
                self.results[order.id] = found
                self.report()

    def save(self) -> None:
        """What memory has of that step is in the store."""
        if self.desired is not None and self.desired.save is not None:
            self.around.save((self.desired.save.step, self.desired.save.epoch))
            self.report()

    # ------------------------------------------------------------ saying

    def report(self) -> None:
        """All that is observed."""
        desired = self.desired
        if desired is None or not self.settled:
            return
        if desired.job is not None:
            self._report_job(desired, desired.job)
        for number, results in self.results.items():
            if any(order.id == number for order in desired.diagnostics):
                self._say(e.DiagnosticEnded(node=self.name, id=number, results=results))

    def _report_job(self, desired: Desired, job: str) -> None:
        name, epoch = self.name, desired.epoch
        if self.training is not None and self.training.epoch == epoch:
            self._say(e.RanksRunning(job=job, epoch=epoch, node=name))
        elif not self.exits:
            stored = self.around.stored() if desired.host_rendezvous else ()
            points = tuple(Stored(step=step, epoch=at) for step, at in stored)
            quiet = e.NodeQuiet(
                job=job, epoch=epoch, node=name, snapshots=self.memory, stored=points
            )
            self._say(quiet)
        if self.serves:
            at = Rendezvous(address=name, port=PORT + epoch)
            self._say(e.RendezvousReady(job=job, epoch=epoch, node=name, rendezvous=at))
        if self.exits:
            self.say_exits(tuple(self.exits.values()))

    def say_exits(self, exits: tuple[RankStatus, ...]) -> None:
        """These ranks of the epoch that is desired have ended."""
        desired = self.desired
        if desired is not None and desired.job is not None:
            steps = [status.step for status in exits if status.step is not None]
            self._say(
                e.RanksExited(
                    job=desired.job,
                    epoch=desired.epoch,
                    node=self.name,
                    exits=exits,
                    step=min(steps, default=None),
                )
            )

    def _say(self, event: e.AnyEvent) -> None:
        if self.connected and not self.cut:
            self.around.say(self, event)

"""The simulated driver around the real core: decide, commit, act; and it can die in between.

Kept by the world. What was committed survives a death; what it held in memory does not.
"""

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.driver.core import effects as f
from holdfast.driver.core import events as e
from holdfast.driver.core.admission import refuse
from holdfast.driver.core.deadlines import Deadlines
from holdfast.driver.core.decide import decide
from holdfast.driver.core.encode import decode, encode
from holdfast.driver.core.model import State
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.turn import Decision
from holdfast.driver.ports import Entry
from holdfast.lab.simulator import invariants
from holdfast.protocol.messages import Desired

if TYPE_CHECKING:
    from holdfast.lab.simulator.world import World


POLICY = Policy(trial_after_s=8.0, trial_longest_s=64.0)
"""Trials come while things go wrong, and before people have repaired everything."""


READING_S = 0.5
"""In which a driver that stood still reads what was sent meanwhile."""


class Driver:
    """One active driver. `fuse` counts down at each point where it may die; None: it does not."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.policy = POLICY
        self.state = State()
        self._deadlines = Deadlines(self.state)
        self.journal: list[Entry] = []
        self.alive = False
        self.fuse: int | None = None
        self.told: dict[str, Desired] = {}
        self._bell_s: float | None = None
        self._unread: list[e.AnyEvent] | None = None  # since it stands still
        self._standstills: list[tuple[float, float]] = []  # their end, and how long

    @property
    def frozen(self) -> bool:
        """Its process is there, and does nothing."""
        return self._unread is not None

    def start(self) -> None:
        """Take over: load the state, look at the facts, wait for executors to come back."""
        self.alive = True
        self.fuse = None
        self.told = {}
        self._bell_s = None
        self._unread = None
        self.state = decode(encode(self.state))
        self._deadlines = Deadlines(self.state)
        self.receive(e.DriverStarted(term=self.state.term + 1))
        for machine in self.world.machines.values():
            if machine.up and not machine.cut:
                self.world.appear(machine)
            else:
                self.receive(e.NodeVanished(node=machine.name, why="not there at start"))

    def die(self) -> None:
        self.alive = False
        self.world.driver_died()

    def request(self, event: e.AnyEvent) -> bool:
        """Put a person's request. False: it is refused, or nobody is there."""
        if not self.alive or self.frozen or refuse(self.state, event) is not None:
            return False
        self.receive(event)
        return self.alive

    def receive(self, event: e.AnyEvent) -> None:
        """Event -> decide -> journal -> effects."""
        if not self.alive:
            return
        if self._unread is not None:
            self._unread.append(event)
            return
        now = self.world.agenda.now
        decision = decide(self.state, event, now, self.policy)
        if decision.idle or self._dies():
            self._set_bell()
            return
        self._commit(event, decision)
        for effect in decision.effects:
            if self._dies():
                return
            self._perform(replace(effect, cause=decision.state.sequence))
        self._set_bell()

    def _commit(self, event: e.AnyEvent, decision: Decision) -> None:
        now = self.world.agenda.now
        self.journal.append(self._entry(event, decision))
        invariants.check(self.world, self.state, event, decision, now)
        self.world.books.committed(self.state, decision, now)
        self.state = decision.state
        self._deadlines.follow(self.state, decision.jobs, decision.nodes)
        invariants.deadlines_are_known(self.state, self._deadlines.next_s())

    def _entry(self, event: e.AnyEvent, decision: Decision) -> Entry:
        now = self.world.agenda.now
        return Entry(
            sequence=decision.state.sequence,
            term=decision.state.term,
            now=now,
            at=f"{now:9.3f}",
            policy=self.policy.version,
            event=event,
            effects=decision.effects,
            why=decision.why,
            jobs=decision.jobs,
            nodes=decision.nodes,
            incident=decision.incident,
        )

    def _dies(self) -> bool:
        if self.fuse is None:
            return False
        self.fuse -= 1
        if self.fuse < 0:
            self.die()
        return not self.alive

    # ------------------------------------------------------------ time

    def freeze(self, for_s: float) -> None:
        """Stand still as a process does that is stopped: what comes waits in its sockets."""
        if not self.alive or self.frozen:
            return
        unread: list[e.AnyEvent] = []
        self._unread = unread
        self.world.agenda.after(for_s, lambda: self._thaw(unread, for_s))

    def stood_since(self, since_s: float) -> float:
        """Seconds of the standstills that ended after that."""
        return sum(stood_s for ended_s, stood_s in self._standstills if ended_s > since_s)

    def _thaw(self, unread: list[e.AnyEvent], stood_s: float) -> None:
        """Its loop looks first, then reads, in which deadlines may pass."""
        if self._unread is not unread or not self.alive:
            return
        self._unread = None
        self._standstills.append((self.world.agenda.now, stood_s))
        self.receive(e.Stalled(stood_s=stood_s))
        self._bell_s = None
        self._set_bell()
        for k, event in enumerate(unread):
            read_s = READING_S * (k + 1) / len(unread)
            self.world.agenda.after(read_s, partial(self._read, event))

    def _read(self, event: e.AnyEvent) -> None:
        """An old connection's end is no news once the executor has a newer one."""
        if isinstance(event, e.ExecutorDisconnected):
            newest = self.world.machines[event.node].executor
            if newest is not None and newest.connected:
                return
        self.receive(event)

    def _set_bell(self) -> None:
        due = self._deadlines.next_s()
        if due is None or not self.alive or (self._bell_s is not None and self._bell_s <= due):
            return
        self._bell_s = due
        self.world.agenda.after(max(0.0, due - self.world.agenda.now), lambda: self._ring(due))

    def _ring(self, due: float) -> None:
        if self._bell_s != due or not self.alive or self.frozen:
            return
        self._bell_s = None
        wanted = self._deadlines.next_s()
        if wanted is not None and wanted <= self.world.agenda.now:
            self.receive(e.Ticked())
            invariants.no_deadline_stays(self.state, self.world.agenda.now, alive=self.alive)
        self._set_bell()

    # ------------------------------------------------------------ effects

    def _perform(self, effect: f.AnyEffect) -> None:
        match effect:
            case f.Instruct(desired=desired):
                self.told[desired.node] = desired
                self.world.tell(desired)
            case f.TakeStacks(job=job, incident=number, cause=cause):
                taken = e.StacksTaken(job=job, incident=number, stacks={0: "…"}, cause=cause)
                takes_s = self.world.rng(job, "stacks").uniform(0.0, 1.5)
                self.world.agenda.after(takes_s, lambda: self.receive(taken))
            case (
                f.Allocate(job=job, node=node, cause=cause)
                | f.PutOnTrial(job=job, node=node, cause=cause)
            ):
                self.world.call(node, e.NodeAllocated(job=job, node=node, cause=cause))
            case f.Release(node=node, cause=cause):
                self.world.call(node, e.NodeReleased(node=node, cause=cause))
            case f.Distrust(node=node, cause=cause):
                self.world.call(node, e.NodeDistrusted(node=node, cause=cause))
            case f.Trust(node=node, cause=cause):
                self.world.call(node, e.NodeTrusted(node=node, cause=cause))

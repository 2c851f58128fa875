"""The simulated driver around the real core: decide, commit, act; and it can die in between.

Kept by the world. What was committed survives a death; what it held in memory does not.
"""

from functools import partial
from typing import Protocol

import msgspec
from msgspec.structs import replace

from holdfast.driver.batch.deadlines import Deadlines, next_deadline, turns_of
from holdfast.driver.core import effects as f
from holdfast.driver.core import events as e
from holdfast.driver.core.decide import decide
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.model import State
from holdfast.driver.core.turn import Decision
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.noted import doings, restates
from holdfast.driver.people.admission import refuse
from holdfast.driver.ports import Entry
from holdfast.lab.simulator.agenda import Agenda
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.violation import require
from holdfast.protocol.messages import Desired

READING_S = 0.5
"""In which a driver that stood still reads what was sent meanwhile."""


class Outside(Protocol):
    """What is around the driver: nodes, cluster, and who looks over its shoulder."""

    def list_nodes(self) -> None:
        """Have the cluster say what every node is."""
        ...

    def has_line(self, node: str) -> bool:
        """Whether the node's executor is connected now."""
        ...

    def tell(self, desired: Desired) -> None:
        """Send it to its node."""
        ...

    def call(self, node: str, outcome: e.AnyEvent, *, trial: bool = False) -> None:
        """Have the cluster do what ends with this. `trial`: no job has the node for its work."""
        ...

    def committed(self, before: State, event: e.AnyEvent, decision: Decision) -> None:
        """It is in the journal, and nothing of it is done yet."""
        ...

    def died(self) -> None:
        """The driver's process is gone."""
        ...


class Backup(msgspec.Struct, frozen=True):
    """A journal as it once was."""

    state: State
    entries: tuple[Entry, ...]


class Driver:
    """One active driver. `fuse` counts down at each point where it may die; None: it does not.
    `checked`: at each commit its deadlines are compared with those of the whole state, which of
    hundreds of nodes costs as much as the decision.
    """

    def __init__(self, outside: Outside, agenda: Agenda, streams: Streams, policy: Policy) -> None:
        self.policy = policy
        self.checked = True
        self._outside = outside
        self._agenda = agenda
        self._streams = streams
        self.state = State()
        self._census = Census()
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
        self._outside.list_nodes()

    def backup(self) -> Backup:
        """The journal as it is now."""
        return Backup(self.state, tuple(self.journal))

    def put_back(self, backup: Backup, *, term: int) -> None:
        """The journal is what it was. `term`: the largest that an executor has followed, which the
        driver that starts next has raised its own to.
        """
        self.state = replace(backup.state, term=max(backup.state.term, term))
        self.journal = list(backup.entries)

    def die(self) -> None:
        self.alive = False
        self._outside.died()

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
        now = self._agenda.now
        decision = decide(self.state, event, now, self.policy, self._census)
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
        self.journal.append(self._entry(event, decision))
        self._outside.committed(self.state, event, decision)
        self.state = decision.state
        self._deadlines.follow(self.state, decision.jobs, decision.nodes)
        if not self.checked:
            return
        wanted_s, known_s = next_deadline(self.state), self._deadlines.next_s()
        require("deadlines-are-known", known_s == wanted_s, f"{known_s}, and not {wanted_s}")

    def _entry(self, event: e.AnyEvent, decision: Decision) -> Entry:
        now = self._agenda.now
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
            doing=doings(self.state, decision.state, decision.jobs, decision.incident),
            restates=restates(event, decision.why, decision.incident),
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
        self._agenda.after(for_s, lambda: self._thaw(unread, for_s))

    def stood_since(self, since_s: float) -> float:
        """Seconds of the standstills that ended after that."""
        return sum(stood_s for ended_s, stood_s in self._standstills if ended_s > since_s)

    def _thaw(self, unread: list[e.AnyEvent], stood_s: float) -> None:
        """Its loop looks first, then reads, in which deadlines may pass."""
        if self._unread is not unread or not self.alive:
            return
        self._unread = None
        self._standstills.append((self._agenda.now, stood_s))
        self.receive(e.Stalled(stood_s=stood_s))
        self._bell_s = None
        self._set_bell()
        for k, event in enumerate(unread):
            read_s = READING_S * (k + 1) / len(unread)
            self._agenda.after(read_s, partial(self._read, event))

    def _read(self, event: e.AnyEvent) -> None:
        """An old connection's end is no news once the executor has a newer one."""
        stale = isinstance(event, e.ExecutorDisconnected) and self._outside.has_line(event.node)
        if not stale:
            self.receive(event)

    def _set_bell(self) -> None:
        due = self._deadlines.next_s()
        if due is None or not self.alive or (self._bell_s is not None and self._bell_s <= due):
            return
        self._bell_s = due
        self._agenda.after(max(0.0, due - self._agenda.now), lambda: self._ring(due))

    def _ring(self, due: float) -> None:
        if self._bell_s != due or not self.alive or self.frozen:
            return
        self._bell_s = None
        wanted = self._deadlines.next_s()
        if wanted is not None and wanted <= self._agenda.now:
            for each in turns_of(self.state, e.Ticked(), self._agenda.now):
                self.receive(each)
            if self.checked:
                self._check_nothing_is_due()
        self._set_bell()

    def _check_nothing_is_due(self) -> None:
        due, now = next_deadline(self.state), self._agenda.now
        cleared = not self.alive or due is None or due > now
        require("a-tick-clears-what-is-due", cleared, f"{due} at {now}")

    # ------------------------------------------------------------ effects

    def _perform(self, effect: f.AnyEffect) -> None:
        match effect:
            case f.Instruct(desired=desired):
                self.told[desired.node] = desired
                self._outside.tell(desired)
            case f.TakeStacks(job=job, incident=number, cause=cause):
                taken = e.StacksTaken(job=job, incident=number, stacks={0: "…"}, cause=cause)
                takes_s = self._streams.of(job, "stacks").uniform(0.0, 1.5)
                self._agenda.after(takes_s, lambda: self.receive(taken))
            case f.Allocate(job=job, node=node, cause=cause):
                self._outside.call(node, e.NodeAllocated(job=job, node=node, cause=cause))
            case f.HoldForExam(job=job, node=node, cause=cause):
                given = e.NodeAllocated(job=job, node=node, cause=cause)
                self._outside.call(node, given, trial=True)
            case f.Release(node=node, cause=cause):
                self._outside.call(node, e.NodeReleased(node=node, cause=cause))
            case f.Distrust(node=node, cause=cause):
                self._outside.call(node, e.NodeDistrusted(node=node, cause=cause))
            case f.Trust(node=node, cause=cause):
                self._outside.call(node, e.NodeTrusted(node=node, cause=cause))

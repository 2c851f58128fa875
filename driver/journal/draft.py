"""What a batch of events leads to before it is committed: the next state and its journal entries.

Used by the loop, gone after the commit. Must not act: what it holds is not yet true.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.driver.batch.deadlines import turns_of
from holdfast.driver.core.decide import FACTS, conclude, noted, subject_of
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.events import AnyEvent, Ticked
from holdfast.driver.core.handlers.parking import leave_alone
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.edges import IllegalTransition
from holdfast.driver.core.state.model import State
from holdfast.driver.core.turn import Decision, Turn
from holdfast.driver.noted import doings, restates, turned
from holdfast.driver.people.admission import Refusal, refuse
from holdfast.driver.ports import Claim, Entry, Key
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Desired, Seat

_log = LazyLogger()
_encode = msgspec.msgpack.Encoder().encode

MOST_DEFECTS = 100
"""Jobs and nodes that are left alone for one event, one after the other; then it is refused."""


class Defect(Exception):
    """An event that meets a defect of ours, in nobody's affairs but its own. Nothing has changed
    of it; the message says what was met.
    """


MOST_JOBS = 64
"""Whose tables are kept in parts: a table of another job is taken apart anew."""

ByNode = dict[str, tuple[int, tuple[Seat, ...]]]


class RankTables:
    """What one node is sent of the rank table: its own seats and how large the whole is, so that
    journal and connections carry the parts. Kept by the loop.

    The whole table is 0.9 MB at 16,384 ranks, for each of 2,048 nodes, and all that a rank has to
    know of the others is how many there are. It is taken apart once, however many nodes are told of
    it, and when: after a restart each of thousands that connects is told.
    """

    def __init__(self) -> None:
        self._parts: dict[str, tuple[tuple[Seat, ...], ByNode]] = {}  # table and parts, by job

    def part(self, desired: Desired) -> Desired:
        """`desired` with the seats of its own node alone, and the sizes set."""
        if not desired.seats:
            return desired
        by_node = self._of(desired.job or "", desired.seats)
        place, own = by_node.get(desired.node, (0, ()))
        return replace(
            desired,
            seats=own,
            world_size=len(desired.seats),
            places=len(by_node),
            place=place,
        )

    def _of(self, job: str, table: tuple[Seat, ...]) -> ByNode:
        if job not in self._parts or self._parts[job][0] is not table:
            while len(self._parts) >= MOST_JOBS:
                del self._parts[next(iter(self._parts))]
            self._parts[job] = table, _by_node(table)
        return self._parts[job][1]


def _by_node(table: tuple[Seat, ...]) -> ByNode:
    """Each node's place, counted by its lowest rank, and its seats in rank order."""
    seats: dict[str, list[Seat]] = {}
    for seat in sorted(table, key=lambda seat: seat.rank):
        seats.setdefault(seat.node, []).append(seat)
    return {node: (place, tuple(own)) for place, (node, own) in enumerate(seats.items())}


class Draft(msgspec.Struct, kw_only=True):
    """`now` is driver time and `at` the time of day of all that is added."""

    state: State
    now: float
    at: str
    policy: Policy
    rank_tables: RankTables = msgspec.field(default_factory=RankTables)
    census: Census = msgspec.field(default_factory=Census)
    entries: list[Entry] = []
    claims: list[Claim] = []

    def add(self, event: AnyEvent) -> None:
        """Decide and note, a tick once for each who is due; what leads to nothing is not noted."""
        for each in turns_of(self.state, event, self.now):
            self._add(each)

    def _add(self, event: AnyEvent) -> None:
        known = len(self.entries)
        try:
            decision = self._decide(event)
        except Defect as defect:
            fact, told = type(event) in FACTS, len(self.entries) > known  # who is left alone
            if fact or not told:
                self._note(event, self._fact_of(event, str(defect)))
            if fact:
                self._go_on()
            return
        if not decision.idle:
            self._note(event, decision)

    def _go_on(self) -> None:
        """Ask what it means for the others, for it was noted alone."""
        try:
            decision = self._decide(Ticked())
        except Defect:  # it is in the log; the fact is noted, and the next event asks again
            return
        if not decision.idle:
            self._note(Ticked(), decision)

    def refusal(self, event: AnyEvent) -> Refusal | None:
        """Why `event` cannot be done, or not be written down. Raises `Defect`."""
        try:
            _encode(event)
            return refuse(self.state, event)
        except Exception as error:
            raise Defect(_met(event, error)) from error

    def add_request(self, event: AnyEvent, key: Key | None) -> Entry:
        """Decide and note in any case, for somebody is told the number of the entry. Raises
        `Defect`: whoever asks is told of it, and it leaves nothing that could be met again.
        """
        decision = self._decide(event, asked=True)
        if decision.idle:
            unchanged = replace(self.state, sequence=self.state.sequence + 1)
            decision = Decision(state=unchanged, why=decision.why or "it is so already")
        entry = self._note(event, decision)
        if key is not None:
            self.claims.append(Claim(key, entry.sequence))
        return entry

    def _note(self, event: AnyEvent, decision: Decision) -> Entry:
        sequence = decision.state.sequence
        entry = Entry(
            sequence=sequence,
            term=decision.state.term,
            now=self.now,
            at=self.at,
            policy=self.policy.version,
            event=event,
            effects=self._ordered(decision.effects, sequence),
            why=decision.why,
            jobs=decision.jobs,
            nodes=decision.nodes,
            incident=decision.incident,
            doing=doings(self.state, decision.state, decision.jobs, decision.incident),
            turned=turned(
                self.state,
                decision.state,
                jobs=decision.jobs,
                nodes=decision.nodes,
                why=decision.why,
            ),
            restates=restates(event, decision.why, decision.incident),
        )
        self.entries.append(entry)
        self.state = decision.state
        return entry

    def _ordered(self, effects: Sequence[AnyEffect], cause: int) -> tuple[AnyEffect, ...]:
        """With their cause, and no more of a rank table than the node that is told has of it."""
        return tuple(
            replace(each, cause=cause, desired=self.rank_tables.part(each.desired))
            if isinstance(each, Instruct)
            else replace(each, cause=cause)
            for each in effects
        )

    def _decide(self, event: AnyEvent, *, asked: bool = False) -> Decision:
        """What follows. Where a defect is met in somebody's affairs he is left alone from then on,
        which is noted first, and the event is decided without him; what was `asked` of his job is
        not done. Raises `Defect` where nobody can be left alone: a job that is only being
        submitted, what is between two, or who is left alone already.
        """
        own = subject_of(self.state, event).job if asked else None
        for _ in range(MOST_DEFECTS):
            turn = Turn(self.state, self.now, self.policy, self.census)
            try:
                return conclude(turn, event)
            except Exception as error:  # a defect met in one job must not end the care of all
                at = turn.subject
                if isinstance(error, IllegalTransition):
                    at = replace(at, job=error.job)
                why = _met(event, error, at.job)
                left = leave_alone(self.state, at, why, self.now, self.policy)
                if left is None:
                    raise Defect(why) from error
                if own is not None and at.job == own:
                    return left
                self._note(event, left)
        raise Defect(f"defects in more than {MOST_DEFECTS} jobs and nodes")

    def _fact_of(self, event: AnyEvent, why: str) -> Decision:
        """What is true of it all the same."""
        try:
            return noted(self.state, event, why, self.now, self.policy)
        except Exception as error:  # noqa: BLE001 even that: nothing of it could be met again
            unchanged = replace(self.state, sequence=self.state.sequence + 1)
            return Decision(state=unchanged, why=f"refused: {_met(event, error)}")


def _met(event: AnyEvent, error: Exception, job: str | None = None) -> str:
    """What was met, for people; the log has its traceback."""
    _log.error("defect in a decision", event_kind=type(event).__name__, job=job, exc_info=error)
    return str(error) if isinstance(error, IllegalTransition) else f"defect: {error!r}"

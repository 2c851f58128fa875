"""What a batch of events leads to before it is committed: the next state and its journal entries.

Used by the loop, gone after the commit. Must not act: what it holds is not yet true.
"""

from collections.abc import Sequence

import msgspec
import structlog
from msgspec.structs import replace

from holdfast.driver.core.decide import decide, park
from holdfast.driver.core.effects import AnyEffect, Instruct
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.core.model import State
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.transitions import IllegalTransition
from holdfast.driver.core.turn import Decision
from holdfast.driver.ports import Claim, Entry, Key
from holdfast.driver.seating import Seating

_log = structlog.get_logger()


class Draft(msgspec.Struct, kw_only=True):
    """`now` is driver time and `at` the time of day of all that is added."""

    state: State
    now: float
    at: str
    policy: Policy
    seating: Seating = msgspec.field(default_factory=Seating)
    entries: list[Entry] = []
    claims: list[Claim] = []

    def add(self, event: AnyEvent) -> None:
        """Decide and note; what leads to nothing is not noted."""
        decision = self._decide(event)
        if not decision.idle:
            self._note(event, decision)

    def add_request(self, event: AnyEvent, key: Key | None) -> Entry:
        """Decide and note in any case, for somebody is told the number of the entry."""
        decision = self._decide(event)
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
        )
        self.entries.append(entry)
        self.state = decision.state
        return entry

    def _ordered(self, effects: Sequence[AnyEffect], cause: int) -> tuple[AnyEffect, ...]:
        """With their cause, and no more of a rank table than the node that is told has of it."""
        return tuple(
            replace(each, cause=cause, desired=self.seating.part(each.desired))
            if isinstance(each, Instruct)
            else replace(each, cause=cause)
            for each in effects
        )

    def _decide(self, event: AnyEvent) -> Decision:
        try:
            return decide(self.state, event, self.now, self.policy)
        except IllegalTransition as error:
            return self._refused(error.job, str(error))
        except Exception as error:  # noqa: BLE001 a defect met in one job must not end the care of all
            _log.exception("decide.defect", event_kind=type(event).__name__)
            return self._refused(getattr(event, "job", None), f"defect: {error!r}")

    def _refused(self, job: str | None, why: str) -> Decision:
        """The event is noted and refused; the job is parked, everything else goes on."""
        _log.error("decide.refused", job=job, why=why)
        if job is not None and job in self.state.jobs:
            return park(self.state, job, why, self.now, self.policy)
        unchanged = replace(self.state, sequence=self.state.sequence + 1)
        return Decision(state=unchanged, why=f"refused: {why}")

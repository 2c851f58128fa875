"""Books of one simulated life, kept from the world's side: what it came to, whatever was decided.

The world writes in them as things happen; `close_books` adds up. Two cores that decide differently
and do their jobs as well have the same books.
"""

import msgspec

from holdfast.driver.core.state.model import FINISHED, State
from holdfast.driver.core.turn import Decision


class JobOutcome(msgspec.Struct, frozen=True):
    """What came of one job. Steps are the world's; seconds are virtual."""

    job: str
    ended: str  # its phase at the end; "deleted", or "refused"
    attempts: int  # that began to train or stood before that
    trained: int  # furthest step
    repeated: int  # steps done again
    unavoidable: int  # of these, such as no snapshot and no checkpoint could have saved
    idle_s: float  # from its submission to its end without training
    held_s: float  # by its nodes, summed


class Outcome(msgspec.Struct, frozen=True):
    """What one seed came to."""

    seed: int
    jobs: tuple[JobOutcome, ...]
    evicted: int  # evictions
    innocent: int  # of these, of nodes that nothing happened to and nobody wanted out
    rule: str = ""  # the one that broke, if any


class Books:
    """Counts of one world."""

    def __init__(self) -> None:
        self.evicted: list[str] = []
        self.submitted_s: dict[str, float] = {}
        self.finished_s: dict[str, float] = {}
        self.repeated: dict[str, int] = {}
        self.unavoidable: dict[str, int] = {}
        self._holders: dict[str, tuple[str, float]] = {}  # by node: job, since
        self.held_s: dict[str, float] = {}

    def submitted(self, job: str, now: float) -> None:
        self.submitted_s.setdefault(job, now)

    def began(self, job: str, *, repeated: int, unavoidable: int) -> None:
        """An attempt begins, which will do so many steps again."""
        self.repeated[job] = self.repeated.get(job, 0) + repeated
        self.unavoidable[job] = self.unavoidable.get(job, 0) + unavoidable

    def committed(self, before: State, decision: Decision, now: float) -> None:
        """What the driver has in its journal now, of the nodes and jobs that changed."""
        after = decision.state
        for name in decision.nodes:
            old, new = before.nodes.get(name), after.nodes[name]
            if new.quarantined and not (old is not None and old.quarantined):
                self.evicted.append(name)
            self.holds(name, new.job or "", now)
        for name in decision.jobs:
            job = after.jobs.get(name)
            if job is None or job.phase in FINISHED:
                self.finished_s.setdefault(name, now)

    def close(self, now: float) -> None:
        """Nobody holds anything any more."""
        for node in tuple(self._holders):
            self.holds(node, "", now)

    def holds(self, node: str, job: str, now: float) -> None:
        """From now on the job has the node, "" for nobody."""
        holder, since_s = self._holders.get(node, ("", now))
        if holder == job:
            return
        self.held_s[holder] = self.held_s.get(holder, 0.0) + now - since_s
        self._holders[node] = (job, now)

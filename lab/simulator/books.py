"""Books of one simulated life, kept from the world's side: what it came to, whatever was decided.

The world writes in them as things happen; `close` adds up. Two cores that decide differently and
do their jobs as well have the same books.
"""

from typing import TYPE_CHECKING

import msgspec

from holdfast.driver.core.model import FINISHED, State
from holdfast.driver.core.turn import Decision

if TYPE_CHECKING:
    from holdfast.lab.simulator.training import Run
    from holdfast.lab.simulator.world import World


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
        self._submitted_s: dict[str, float] = {}
        self._finished_s: dict[str, float] = {}
        self._repeated: dict[str, int] = {}
        self._unavoidable: dict[str, int] = {}
        self._holders: dict[str, tuple[str, float]] = {}  # by node: job, since
        self._held_s: dict[str, float] = {}

    def submitted(self, job: str, now: float) -> None:
        self._submitted_s.setdefault(job, now)

    def began(self, job: str, start: int, *, best: int, possible: int) -> None:
        """An attempt begins at `start`; `best` was reached, and `possible` could be restored."""
        self._repeated[job] = self._repeated.get(job, 0) + max(0, best - start)
        unavoidable = max(0, best - max(start, possible))
        self._unavoidable[job] = self._unavoidable.get(job, 0) + unavoidable

    def committed(self, before: State, decision: Decision, now: float) -> None:
        """What the driver has in its journal now, of the nodes and jobs that changed."""
        after = decision.state
        for name in decision.nodes:
            old, new = before.nodes.get(name), after.nodes[name]
            if new.quarantined and not (old is not None and old.quarantined):
                self.evicted.append(name)
            self._holds(name, new.job or "", now)
        for name in decision.jobs:
            job = after.jobs.get(name)
            if job is None or job.phase in FINISHED:
                self._finished_s.setdefault(name, now)

    def _holds(self, node: str, job: str, now: float) -> None:
        holder, since_s = self._holders.get(node, ("", now))
        if holder == job:
            return
        self._held_s[holder] = self._held_s.get(holder, 0.0) + now - since_s
        self._holders[node] = (job, now)

    def close(self, world: "World", rule: str = "") -> Outcome:
        """Add up: what came of every job, and of the nodes."""
        for node in tuple(self._holders):
            self._holds(node, "", world.agenda.now)
        harmless = [n for n in self.evicted if n not in world.guilty and n not in world.asked]
        return Outcome(
            seed=world.scenario.seed,
            jobs=tuple(self._job(world, name) for name in sorted(world.jobs)),
            evicted=len(self.evicted),
            innocent=len(harmless),
            rule=rule,
        )

    def _job(self, world: "World", name: str) -> JobOutcome:
        job = world.driver.state.jobs.get(name)
        now = world.agenda.now
        since_s = self._submitted_s.get(name, now)
        runs = [run for (owner, _), run in world.runs.items() if owner == name]
        trained_s = sum(_trained_s(run, now) for run in runs)
        alive_s = self._finished_s.get(name, now) - since_s
        gone = "deleted" if name in world.deleted else "refused"
        return JobOutcome(
            job=name,
            ended=job.phase.value if job is not None else gone,
            attempts=len(world.lines[name]),
            trained=world.best[name],
            repeated=self._repeated.get(name, 0),
            unavoidable=self._unavoidable.get(name, 0),
            idle_s=round(max(0.0, alive_s - trained_s), 3),
            held_s=round(self._held_s.get(name, 0.0), 3),
        )


def _trained_s(run: "Run", now: float) -> float:
    if run.since_s is None:
        return 0.0
    return (run.stood_s if run.stood_s is not None else now) - run.since_s

"""What one life of a case came to, counted from the world's side, whoever played it."""

from collections.abc import Iterable

import msgspec

from holdfast.lab.simulator.cases.cause import Cause
from holdfast.lab.simulator.cases.drawing import Case
from holdfast.lab.simulator.cases.trouble import STEP_S

WELL = 0.8
"""Share of the last third of its life that a job has to train, to be called running."""


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds are virtual."""

    case: str
    seed: int
    nodes: int
    ended: str  # "running", "failed" or "looping"
    curable: bool  # without the guilty there are nodes enough
    right: bool  # it is what should have become of it
    named: str  # the cause, as whoever played it said: a hypothesis, "" for none
    named_right: bool
    faults: int
    moves: int  # nodes that the job left for another
    innocent_moves: int  # of these, such as were not guilty
    quarantined: int
    innocent_quarantined: int
    lost_s: float  # against a life in which nothing went wrong
    repeated: int  # steps done again


class CaseBooks:
    """Counts of one life."""

    def __init__(self, case: Case, cause: Cause) -> None:
        self.case = case
        self.cause = cause
        self.began_s: float | None = None  # when it first trained
        self.best = 0  # furthest step
        self.faults = 0
        self.repeated = 0
        self.paused_s = 0.0  # that the job wanted itself
        self._rests_s: float | None = None  # since when a person wants it to
        self.left: list[str] = []
        self.out: list[str] = []  # quarantined
        self._nodes: tuple[str, ...] = ()
        self._bests: list[tuple[float, int]] = []  # when, and the furthest step then

    def begins(self, nodes: tuple[str, ...], start: int, now: float) -> None:
        """Ranks begin to train on these nodes, from this step."""
        if self.began_s is None:
            self.began_s = now
            self.cause.begins(nodes)
        if self._rests_s is not None:
            self.paused_s += now - self._rests_s
            self._rests_s = None
        self.left += [node for node in self._nodes if node not in nodes]
        self._nodes = nodes
        self.repeated += max(0, self.best - start)

    def rests(self, now: float) -> None:
        """A person stops it; until it trains again that is nobody's loss."""
        self._rests_s = now

    def reached(self, step: int, now: float) -> None:
        self.best = max(self.best, step)
        self._bests.append((now, self.best))

    def close(self, *, failed: bool, cured: bool, named: str, now: float) -> Life:
        """`cured`: nothing more is to come of the cause."""
        ended = "failed" if failed else "running" if cured or self._well(now) else "looping"
        return Life(
            case=self.case.name,
            seed=self.case.seed,
            nodes=self.case.nodes,
            ended=ended,
            curable=self._curable,
            right=ended in self._rightly(),
            named=named,
            named_right=named in self.cause.names,
            faults=self.faults,
            moves=len(self.left),
            innocent_moves=len(self._innocent(self.left)),
            quarantined=len(self.out),
            innocent_quarantined=len(self._innocent(self.out)),
            lost_s=round(self._trains_s(now) - self.best * STEP_S - self.paused_s, 1),
            repeated=self.repeated,
        )

    def _well(self, now: float) -> bool:
        """Whether it got on in the last third of its life as it should."""
        since_s = now - (now - (self.began_s or 0.0)) / 3
        before = max((best for at_s, best in self._bests if at_s <= since_s), default=0)
        return (self.best - before) * STEP_S >= WELL * (now - since_s)

    def _trains_s(self, now: float) -> float:
        return now - self.began_s if self.began_s is not None else 0.0

    @property
    def _curable(self) -> bool:
        return self.cause.curable(len(self.case.all_nodes), self.case.nodes)

    def _rightly(self) -> frozenset[str]:
        cause = self.cause
        if cause.hopeless:
            return frozenset({"failed"})
        if cause.blocks and not self._curable:
            return frozenset({"failed", "running"})
        return frozenset({"running"})

    def _innocent(self, nodes: Iterable[str]) -> list[str]:
        return [node for node in nodes if node not in self.cause.guilty]

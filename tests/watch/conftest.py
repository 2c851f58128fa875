"""A cluster of made-up daemons in virtual time, for the detectors."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

from holdfast.driver.core.events import Found, ProgressSeen
from holdfast.driver.watch import Expectation, Watch
from holdfast.driver.watch.detector import Detector
from holdfast.protocol.faults import Finding
from holdfast.protocol.messages import (
    GroupProgress,
    Heartbeat,
    LogHit,
    NicRates,
    Pressure,
    Probe,
    RankProgress,
    Seat,
)

Kind = TypeVar("Kind")


class Cluster:
    """Nodes with two ranks each; time goes in tenths of a second, heartbeats every half."""

    def __init__(
        self,
        nodes: int,
        *,
        first_step_s: float = 600.0,
        best_step: int = 0,
        detectors: Iterable[Detector] | None = None,
    ) -> None:
        self.names = [f"node-{n}" for n in range(nodes)]
        self.watch = Watch(detectors=detectors)
        self.now = 100.0
        self.epoch = 1
        self.step = 0
        self.silent: set[str] = set()
        self.answers = dict.fromkeys(self.names, "ok")  # to probes: ok, reset, silent
        self.answered_s = dict.fromkeys(self.names, self.now)
        self.alter: Callable[[RankProgress], RankProgress] = lambda seen: seen
        self.changed_s: dict[int, float] = {}
        self.last: dict[int, Any] = {}
        self.step_s = 0.2
        self.running = True
        self.extra: dict[str, dict[str, Any]] = {}
        self.found: list[Finding] = []
        self.seen: list[ProgressSeen] = []
        self.first_step_s = first_step_s
        self.sequence = 0
        self.expect(best_step)

    def expect(
        self, best_step: int | None = None, spots: dict[str, int] | None = None, **more: Any
    ) -> None:
        self.watch.expect(
            Expectation(
                job="job",
                epoch=self.epoch,
                seats=tuple(
                    Seat(rank=rank, local_rank=rank % 2, node=self.names[rank // 2], address="::")
                    for rank in range(2 * len(self.names))
                ),
                hang_floor_s=5.0,
                first_step_s=self.first_step_s,
                best_step=best_step,
                spots=spots or {},
                **more,
            )
        )

    def detector(self, kind: type[Kind]) -> Kind:
        (found,) = [each for each in self.watch.detectors if isinstance(each, kind)]
        return found

    def go(self, seconds: float) -> list[Finding]:
        """Let time pass; what was found meanwhile."""
        before = len(self.found)
        for tenth in range(round(seconds * 10)):
            self.now += 0.1
            if self.running and tenth % round(self.step_s * 10) == 0:
                self.step += 1
            for name in self.names:
                if self.answers[name] != "silent":
                    self.answered_s[name] = self.now
            if tenth % 5 == 0:
                self.beat_all()
            self.take(self.watch.tick(self.now))
        return self.found[before:]

    def beat_all(self) -> None:
        for name in self.names:
            if name not in self.silent:
                self.take(self.watch.heard(self.beat(name), self.now))

    def take(self, events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, Found):
                self.found.append(event.finding)
            elif isinstance(event, ProgressSeen):
                self.seen.append(event)

    def beat(self, name: str) -> Heartbeat:
        self.sequence += 1
        at = self.names.index(name)
        neighbours = [self.names[(at + step) % len(self.names)] for step in (1, 2)]
        fields: dict[str, Any] = {
            "node": name,
            "incarnation": "a",
            "sequence": self.sequence,
            "uptime_s": self.now,
            "ranks": tuple(self.rank(rank) for rank in (2 * at, 2 * at + 1)),
            "probes": tuple(
                Probe(
                    node=other,
                    ok=self.answers[other] == "ok",
                    reset=self.answers[other] == "reset",
                    silent_s=self.now - self.answered_s[other],
                )
                for other in dict.fromkeys(neighbours)
                if other != name
            ),
        }
        return Heartbeat(**{**fields, **self.extra.get(name, {})})

    def rank(self, number: int) -> RankProgress:
        world = tuple(range(2 * len(self.names)))
        group = GroupProgress(
            members=1, kind="all_reduce", enqueued=self.step, done=self.step, ranks=world
        )
        seen = self.alter(
            RankProgress(
                rank=number,
                epoch=self.epoch,
                job="job",
                pid=1_000 + number,
                process="S",
                step=self.step,
                groups=(group,),
                hooks=True,
                tokens=100 * self.step,
            )
        )
        shown = (seen.step, seen.groups)
        if self.last.get(number) != shown:
            self.last[number], self.changed_s[number] = shown, self.now
        from msgspec.structs import replace

        return replace(seen, still_s=self.now - self.changed_s[number])


@pytest.fixture
def cluster() -> type[Cluster]:
    return Cluster


__all__ = ["Cluster", "LogHit", "NicRates", "Pressure"]

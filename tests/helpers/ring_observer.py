"""Real ranks, seen through their rings by one daemon's samplers and judged by a driver's detectors.

Used by tests of hangs.
"""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace
from waiting import DEADLINE_S

from holdfast.daemon.samplers.progress import Progress
from holdfast.driver.core.events import AnyEvent, Found
from holdfast.driver.watch import Expectation, Watch
from holdfast.kit.clock import RunningClock
from holdfast.protocol.faults import Finding, Weight
from holdfast.protocol.messages import Heartbeat, RankProgress, Seat

TRAINING_FLOOR_S = 6.0
"""Longer than a busy machine holds up a rank that trains."""
HANGING_FLOOR_S = 2.0
"""Once one hangs: shorter than the default of 5 s."""


class Observer:
    """One daemon's sampling and one driver's detectors, in this process and on its clock."""

    def __init__(self, rings: Path, count: int, hide: bool) -> None:
        self.progress = Progress(rings)
        self.watch = Watch()
        self.awake = RunningClock(time.monotonic, self.watch.stood_still)
        self.hide = hide
        self.sequence = 0
        self.found: list[Finding] = []
        self.reported: list[Finding] = []
        seats = tuple(Seat(rank=r, local_rank=r, node="here", address="") for r in range(count))
        self.expected = Expectation(job="job", epoch=1, seats=seats, first_step_s=DEADLINE_S)
        self.expect(TRAINING_FLOOR_S)

    def expect(self, floor_s: float) -> None:
        """From now on a standstill is a hang after so long."""
        self.expected = replace(self.expected, hang_floor_s=floor_s)
        self.watch.expect(self.expected)

    def look(self) -> None:
        """A sample; a heartbeat at every fifth."""
        now = self.awake.now()
        self.progress.sample(now)
        events: list[AnyEvent] = []
        self.sequence += 1
        if self.sequence % 5 == 0:
            ranks = tuple(map(self._shown, self.progress.ranks(now)))
            beat = Heartbeat(
                node="here", incarnation="a", sequence=self.sequence, uptime_s=now, ranks=ranks
            )
            events += self.watch.heard(beat, now)
        events += self.watch.tick(now)
        for finding in (event.finding for event in events if isinstance(event, Found)):
            (self.reported if finding.weight is Weight.REPORT else self.found).append(finding)
        time.sleep(0.1)

    def until(self, fact: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> None:
        deadline_s = time.monotonic() + within_s
        while not fact():
            assert time.monotonic() < deadline_s, f"not within {within_s} s: {what}"
            self.look()

    def step(self) -> int:
        progress = self.watch.progress("job")
        return progress.step if progress is not None else 0

    def _shown(self, seen: RankProgress) -> RankProgress:
        return replace(seen, process="", cpu_s=0.0, stopped_children=()) if self.hide else seen

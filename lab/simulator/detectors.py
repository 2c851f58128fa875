"""The driver's real detectors in the simulated world, on heartbeats of made-up daemons.

Made by `simulate` for scenarios with `heartbeats`, in place of `detector_stub`: a fault shows in
what daemons tell, and what is found of that is decided on. What is not simulated (rings, samplers)
is made up to fit what really happens. A life costs three times as much so
(39 ms in place of 12): it is a family of its own, of which few are lived.
"""

from holdfast.driver.core import events as e
from holdfast.driver.follow.feed import expectation
from holdfast.driver.watch import Expectation, Watch
from holdfast.kit.clock import RunningClock
from holdfast.lab.simulator.daemons import Daemons
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Kind

PERIOD_S = 0.5
"""Of heartbeats, and of ticks."""


def start(world: World) -> None:
    """Daemons speak, whether a driver is there or not; each driver has detectors of its own."""
    _Detectors(world).go_on()


class _Detectors:
    """Those of the driver that leads now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._daemons = Daemons(world)
        self._begin()

    def _begin(self) -> None:
        """A driver knows nothing of what an earlier one has heard."""
        self._term = self._world.driver.state.term
        self._watch = Watch()
        self._clock = RunningClock(lambda: self._world.now, self._watch.stood_still)
        self._expected: dict[str, Expectation] = {}

    def go_on(self) -> None:
        self._world.agenda.after(PERIOD_S, self.go_on)
        driver = self._world.driver
        if not driver.alive or driver.frozen:
            return
        if driver.state.term != self._term:
            self._begin()
        now = self._clock.now()
        self._follow()
        self._tell_lines(now)
        for event in self._found(now):
            self._check(event)
            driver.receive(event)

    def _found(self, now: float) -> list[e.AnyEvent]:
        events: list[e.AnyEvent] = []
        for beat in self._daemons.beats(self._watch.instructions()):
            events += self._watch.heard(beat, now)
        return [*events, *self._watch.tick(now)]

    def _check(self, event: e.AnyEvent) -> None:
        """Whoever is said to be lost is: nothing that befalls a driver makes it so."""
        if isinstance(event, e.Found) and event.finding.kind is Kind.NODE_LOST:
            node = event.finding.node or ""
            require("nobody-well-is-found-lost", node in self._world.guilty, node)

    def _follow(self) -> None:
        """Have them expect what the driver's state says should run, as `Feed` does."""
        jobs = self._world.driver.state.jobs
        wanted = {name: expectation(job) for name, job in jobs.items() if job.seats}
        for name in self._expected.keys() - wanted.keys():
            self._watch.forget(name)
        for name, expected in wanted.items():
            if self._expected.get(name) != expected:
                self._watch.expect(expected)
        self._expected = wanted
        self._watch.keep({name for name, job in jobs.items() if not job.finished})

    def _tell_lines(self, now: float) -> None:
        """What the cluster says of nodes, and which lines there are. One that is dead closes none,
        but for those of its executor, which others notice."""
        for node, machine in self._world.machines.items():
            self._watch.fact(node, machine.up, now)
            executor = machine.executor
            if executor is not None and executor.connected:
                self._watch.connected(node, "executor", now)
            elif machine.up:
                self._watch.disconnected(node, "executor", now)

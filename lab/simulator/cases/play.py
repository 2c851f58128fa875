"""Plays a case under the driver's real core. Called by the tests and by `holdfast bench evidence`.

Told apart from `holdfast.lab.simulator.simulate`: no rules are checked here, nothing is late or
lost, and it ends as soon as nothing more is to come.
"""

from holdfast.diagnostics.registry import only
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.lab.simulator.cases.books import Life
from holdfast.lab.simulator.cases.course import Course
from holdfast.lab.simulator.cases.drawing import Case, draw
from holdfast.lab.simulator.cases.edit import edit
from holdfast.lab.simulator.cases.naming import named
from holdfast.lab.simulator.cases.training import Training
from holdfast.lab.simulator.cases.world import JOB, CaseWorld

TESTED = ("compute", "allreduce")
"""The tests of nodes: lives stay what they are when another is registered."""
RAN_WELL_S = 600.0
"""For so long an earlier version has run, where there is one."""


class Play:
    """One life; `world` and `course` are left as they are at its end."""

    def __init__(self, case: Case) -> None:
        self.world = CaseWorld(case, self._began)
        self.course = Course(self.world)
        self._versions = self.world.cause.versions

    def _began(self, training: Training) -> None:
        self.course.began(training)
        if self._versions > 1:
            number, self._versions = self._versions, 1
            self.world.agenda.after(RAN_WELL_S, lambda: edit(self.world, number))

    def life(self) -> Life:
        """Play it to its end."""
        world = self.world
        world.driver.start()
        world.driver.request(e.JobSubmitted(job=JOB, plan=world.plan(1)))
        while (due := world.agenda.next_s()) is not None and not world.over:
            if due > world.cause.lasts_s:
                break
            world.agenda.step()
        return self._closed()

    def _closed(self) -> Life:
        world, state = self.world, self.world.driver.state
        now, training = world.now, world.training
        if training is not None and not training.over:
            world.books.reached(training.step(now), now)
        failed = state.jobs[JOB].phase is Phase.FAILED
        cured = self.course.cured and training is not None and not training.over
        cause = named(state, JOB, spoiled_s=world.spoiled_s)
        return world.books.close(failed=failed, cured=cured, named=cause, now=now)


@only(*TESTED)
def play(name: str, seed: int) -> Life:
    """A seed of a case, under the core of this tree."""
    return Play(draw(name, seed)).life()

"""A person gives the job another version of its code, between two attempts."""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.lab.simulator.cases.world import JOB, CaseWorld

LOOKS_S = 1.0


def edit(world: CaseWorld, number: int) -> None:
    """Suspend the job, let it have the version, and resume it."""
    world.driver.request(e.SuspendRequested(job=JOB, by="a person"))
    world.books.rests(world.now)
    _when_at_rest(world, number)


def _when_at_rest(world: CaseWorld, number: int) -> None:
    driver = world.driver
    job = driver.state.jobs[JOB]
    if job.phase is not Phase.SUSPENDED:
        world.agenda.after(LOOKS_S, lambda: _when_at_rest(world, number))
        return
    plan, fields = world.plan(number), ("command",)
    driver.request(e.UpdateRequested(job=JOB, plan=plan, fields=fields, by="a person"))
    driver.request(e.ResumeRequested(job=JOB, by="a person"))

"""What the driver's detectors see of simulated training, and when they tell of it.

In scenarios with `heartbeats` they are the real ones, and these here say nothing: see `detectors`.
"""

from holdfast.driver.core import events as e
from holdfast.lab.simulator.scenario import STEP_S
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Finding, Kind, Weight

STILL_S = 4.0
"""After which ranks that stand still are found, and told of again."""


def watch_progress(world: World, run: Run) -> None:
    """Tell of the first step that no epoch had reached, as the driver's detectors would."""
    if world.scenario.heartbeats or not run.training:
        return
    aim = world.best[run.job.name] + 1
    if aim > run.job.steps or run.since_s is None:
        return
    due_s = run.since_s + (aim - run.start) * STEP_S + 0.01

    def see() -> None:
        if run.training and run.step(world.now) >= aim:
            seen = e.ProgressSeen(job=run.job.name, epoch=run.epoch, step=aim)
            world.driver.receive(seen)

    world.agenda.after(max(0.0, due_s - world.now), see)


def watch_still(world: World, run: Run, after_s: float = STILL_S) -> None:
    """Ranks that stand still are found, for as long as they do."""
    if world.scenario.heartbeats:
        return
    world.agenda.after(after_s, lambda: _look(world, run))


def _look(world: World, run: Run) -> None:
    if world.driver.frozen:
        watch_still(world, run)
        return
    job = world.driver.state.jobs.get(run.job.name)
    if job is None or job.finished or job.epoch != run.epoch or not job.seated:
        return
    if run.training or run.ended == run.job.steps:
        return
    world.driver.receive(e.Found(finding=_finding(world, run)))
    watch_still(world, run)


def tell_it_goes_on(world: World, run: Run) -> None:
    """What stood still goes on by itself."""
    if world.scenario.heartbeats:
        return
    found = Finding(
        kind=Kind.GOES_ON,
        weight=Weight.REPORT,
        job=run.job.name,
        epoch=run.epoch,
        step=run.step(world.now),
        summary=f"{run.job.name} goes on by itself",
    )
    world.driver.receive(e.Found(finding=found))


def _finding(world: World, run: Run) -> Finding:
    culprits = [node for node in run.nodes if world.machines[node].bad]
    apart = () if culprits else world.parted_in(run)
    return Finding(
        kind=Kind.UNREACHABLE if apart else Kind.HANG,
        weight=Weight.SUSPECT,
        job=run.job.name,
        epoch=run.epoch,
        node=None if apart else (*culprits, run.nodes[0])[0],
        apart=apart,
        step=run.step(world.now),
        summary=f"ranks of {run.job.name} stand still",
        doubt=run.doubt,
    )

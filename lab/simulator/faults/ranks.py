"""Faults of ranks and of the code that they run."""

from holdfast.lab.simulator import training_run
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def kill_rank(world: World, fault: Fault) -> None:
    if executor := whom.busy(world, fault):
        run = executor.run
        assert run is not None
        ranks = run.ranks[executor.machine.name]
        executor.rank_ends(ranks[fault.dice % len(ranks)], signal=9 if fault.size < 0.5 else 11)
        training_run.stand_still(world, run)


def blip(world: World, fault: Fault) -> None:
    """Ranks lose each other for a moment, and none of them died."""
    if executor := whom.busy(world, fault):
        run = executor.run
        assert run is not None
        executor.rank_ends(run.ranks[executor.machine.name][0], code=1, error="echo")
        training_run.stand_still(world, run)


def raise_once(world: World, fault: Fault) -> None:
    if executor := whom.busy(world, fault):
        run = executor.run
        assert run is not None
        training_run.raise_in(world, run, executor)


def pause(world: World, fault: Fault) -> None:
    """All ranks of a job are paused by somebody, or a clock jumps while they prepare something: for
    up to a minute they stand still, and go on by themselves."""
    if executor := whom.busy(world, fault):
        run = executor.run
        assert run is not None
        doubt = ("its ranks are paused", "clocks went apart")[fault.dice % 2]
        training_run.pause(world, run, 60.0 * fault.size, doubt)


def bug(world: World, fault: Fault) -> None:
    name = whom.job(world, fault)
    training_run.plant_bug(world, name, 1 + fault.dice % world.jobs[name].steps)


def hungry(world: World, fault: Fault) -> None:
    """From now on a rank of the job is killed for memory at this step, always."""
    world.greedy.add(whom.job(world, fault))
    bug(world, fault)


def hang(world: World, fault: Fault) -> None:
    if executor := whom.busy(world, fault):
        run = executor.run
        assert run is not None
        training_run.stand_still(world, run, echo=False)

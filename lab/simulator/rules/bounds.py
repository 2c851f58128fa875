"""Bounds on what a job may wait, and on what a recovery may cost. Looked at every few seconds."""

from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Node
from holdfast.lab.simulator.machines import ExamLie, Machine
from holdfast.lab.simulator.scenario import STEP_S
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.violation import Violation, require
from holdfast.lab.simulator.waits import Recovery
from holdfast.lab.simulator.world import World

LOOK_S = 1.0
"""How often, at the most."""
LONGEST_S = 180.0
"""No job stands still for longer while enough nodes for it are well and nobody else has them: the
boxes of one recovery that all run out, one after another. Until its ranks are gone 20 s, until its
store listens 30 s, its tests 60 s, its start 60 s (as `people.plan_of` has them), and 10 s for
words that come late."""
TIMES = 30.0
"""A recovery costs at most so many times the best possible. The dearest that there is: a place that
moves waits 120 s for its last step, of which nothing gets to the store, and 30 s more until another
look at checkpoints. (Tests that hang cost 60 s, as long as their box is open.)"""
FAULT_S = 5.0
"""The best possible: whoever knows hears of each thing that goes wrong when the detectors tell of
it, at the latest (4 s), restarts the ranks within a second, and only trains again what neither the
store nor a node of the job has kept."""
TRIED_S = 180.0
"""From the time when a node may be tested until it has been: its executor has 120 s to come, its
tests have 60 s."""


def look(world: World) -> None:
    """Count what jobs have waited since the last look."""
    waits, now = world.waits, world.now
    since_s, waits.seen_s = now - waits.seen_s, now
    owed, waits.owed = waits.owed, _owed(world)
    _look_at_nodes(world, since_s)
    for name in world.jobs:
        wait = waits.of(name)
        step = _furthest(world, name)
        if step > wait.best:
            wait.best, wait.owed_s = step, 0.0
        if name in owed:
            wait.owed_s += since_s
            if wait.recovering_s is not None:
                wait.recovering_s += since_s
        waits.longest_s = max(waits.longest_s, wait.owed_s)
        if wait.owed_s > LONGEST_S:  # no `require`: a job in words is dearer than the look
            text = f"{name} for {wait.owed_s:.1f} s: {world.driver.state.jobs.get(name)}"
            raise Violation("no-job-stands-still-for-long", text)


def _look_at_nodes(world: World, since_s: float) -> None:
    """Who is well is used again, though nobody restores it: when its exam comes, one at a time."""
    state, out_s = world.driver.state, world.waits.out_s
    out = [node.name for node in state.nodes.values() if _is_out(world, node)]
    longest_s = world.scenario.policy.requalify_longest_s + TRIED_S * len(out)
    for name in [name for name in out_s if name not in out]:
        del out_s[name]
    for name in out:
        out_s[name] = out_s.get(name, 0.0) + since_s
        kept = out_s[name] <= longest_s
        require("nobody-well-stays-out", kept, f"{name} for {out_s[name]:.1f} s")


def _is_out(world: World, node: Node) -> bool:
    """It is evicted, is well, and waits for nothing but its exam."""
    quarantine = node.quarantine
    if quarantine is None or quarantine.setup is None:
        return False
    if node.name in world.kept_out or node.name in world.promises.free_by:
        return False
    machine = world.machines[node.name]
    honest = machine.exam is ExamLie.HONEST
    return is_well(machine) and honest and not world.driver.state.brake.on


def _furthest(world: World, name: str) -> int:
    run = world.newest_run(name)
    return max(world.best[name], run.step(world.now) if run is not None else 0)


def _owed(world: World) -> set[str]:
    """The jobs that could train, and do not get further."""
    if not world.driver.alive or world.driver.frozen:
        return set()
    waiting = {name for name in world.jobs if _wants(world, name)}
    still = {name for name in waiting if not _trains(world, name)}
    needed = sum(world.jobs[name].nodes for name in still)
    return still if still and _free(world, still) >= needed else set()


def _trains(world: World, name: str) -> bool:
    run = world.newest_run(name)
    return run is not None and run.training


def _wants(world: World, name: str) -> bool:
    job = world.driver.state.jobs.get(name)
    if job is None or job.finished or job.parked or not job.goes_on:
        return False
    readable = world.store_up and name not in world.lookup.lagging and world.lookup.is_whole
    return job.phase is not Phase.SUSPENDED and readable and name not in world.bugs


def _free(world: World, jobs: set[str]) -> int:
    """Nodes that are well, and that these jobs have or could have."""
    well = [machine.name for machine in world.machines.values() if _usable(world, machine, jobs)]
    return len(well) - sum(1 for two in world.parted if set(two) <= set(well))


def _usable(world: World, machine: Machine, jobs: set[str]) -> bool:
    node = world.driver.state.nodes.get(machine.name)
    if node is None or node.quarantined or node.notice is not None:
        return False
    return is_well(machine) and (node.job is None or node.job in jobs)


def is_well(machine: Machine) -> bool:
    sick = machine.bad or machine.unkillable or machine.wedged or machine.lemon_s is not None
    return machine.up and not (machine.cut or machine.cordoned or sick)


def stopped(world: World, run: Run) -> None:
    """Training stands still: what follows is its recovery."""
    look(world)
    wait = world.waits.of(run.job.name)
    if wait.recovering_s is None and run.step(world.now) < run.job.steps:
        wait.recovering_s, wait.faults_before = 0.0, world.faults_so_far


def begins(world: World, name: str, *, repeated: int, unavoidable: int) -> None:
    """An attempt begins, which will do so many steps again."""
    wait = world.waits.of(name)
    wait.repeated, wait.unavoidable = repeated, unavoidable


def went_on(world: World, run: Run) -> None:
    """Training begins."""
    look(world)
    world.waits.running_s.setdefault(run.job.name, world.now)
    wait = world.waits.of(run.job.name)
    if wait.recovering_s is None:
        return
    faults = 1 + world.faults_so_far - wait.faults_before
    done = Recovery(run.job.name, wait.recovering_s, wait.repeated, wait.unavoidable, faults)
    wait.recovering_s = None
    world.waits.recoveries.append(done)
    times = _cost_s(done) / _best_s(done)
    world.waits.dearest = max(world.waits.dearest, times)
    require("a-recovery-is-not-dear", times <= TIMES, done)


def _cost_s(done: Recovery) -> float:
    return done.owed_s + done.repeated * STEP_S


def _best_s(done: Recovery) -> float:
    return done.faults * FAULT_S + done.unavoidable * STEP_S

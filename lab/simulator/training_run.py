"""The course of training in the simulated world: how a run begins, stands still, and ends.

Called by executors whose ranks start or end, and by faults.
"""

from functools import partial

from holdfast.lab.simulator import checkpoints, detector_stub
from holdfast.lab.simulator.machines import Machine, Process
from holdfast.lab.simulator.rules import bounds
from holdfast.lab.simulator.scenario import FIRST_STEP_S, STEP_S
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.violation import Violation, require
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Desired, Rendezvous

MOST_KILLS = 6
"""A job that one step kills is given up by then, where it has one node and there is no other to
try: after the first kill the user's three restarts pay, however many steps are done again. (One
more where a driver that died did not hear of a kill.)"""
BAD_S = 1.2
"""After which ranks on a bad node hang."""


def run_of(world: World, desired: Desired, start: int) -> Run:
    """The run of an epoch, made when its first ranks start."""
    assert desired.job is not None
    name = desired.job
    key = (name, desired.epoch)
    if key not in world.runs or (world.put_back and _is_over(world, world.runs[key])):
        last = world.promises.resting.get(name, desired.epoch)
        require("what-people-suspend-rests", desired.epoch <= last, f"{name} starts {key}")
        checkpoints.check_restore(world, desired)
        checkpoints.check_start(world, name, start)
        run = Run(world.jobs[name], desired.epoch, desired.seats, start)
        _count(world, run)
        world.lines[name].append((desired.epoch, start))
        world.runs[key] = run
    return world.runs[key]


def _is_over(world: World, run: Run) -> bool:
    """It came to its end and is left. After a journal was put back nodes are told to start it."""
    left = not any(process_of(world, run, node) for node in run.nodes)
    return run.ended == run.job.steps and left


def _count(world: World, run: Run) -> None:
    """Steps that it will do again; and those that nobody, or nobody here, could have saved."""
    name, best = run.job.name, world.best[run.job.name]
    anywhere = checkpoints.possible(world, name, world.machines)
    here = checkpoints.possible(world, name, run.nodes)
    repeated = max(0, best - run.start)
    world.books.began(name, repeated=repeated, unavoidable=max(0, best - max(run.start, anywhere)))
    bounds.begins(world, name, repeated=repeated, unavoidable=max(0, best - max(run.start, here)))


def ranks_start(world: World, machine: Machine, run: Run) -> None:
    """Nothing of an older epoch runs where this one starts."""
    for node in run.nodes:
        other = world.machines[node].executor
        if other is not None and other.run is not None and other.run.epoch < run.epoch:
            text = f"{machine.name} starts {run.epoch} while {node} runs {other.run.epoch}"
            raise Violation("one-epoch-at-a-time", text)


def ranks_meet(world: World, run: Run, rendezvous: Rendezvous | None) -> None:
    """All are up: they train, or wait at a store that is gone, and nothing says so but it."""
    assert rendezvous is not None
    host = world.machines[rendezvous.address].executor
    meet = host is not None and host.store_port == rendezvous.port
    if meet and world.parted_in(run) and run.start < run.job.steps:
        run.stand_still(world.now)
        detector_stub.watch_still(world, run)
    elif meet:
        _begin(world, run)
    else:
        run.stand_still(world.now)
        detector_stub.watch_still(world, run, FIRST_STEP_S)


def _begin(world: World, run: Run) -> None:
    _train(world, run)
    if any(world.machines[node].bad for node in run.nodes):
        world.agenda.after(BAD_S, lambda: stand_still(world, run, echo=False))
    for node in run.nodes:
        lemon_s = world.machines[node].lemon_s
        if lemon_s is not None:
            world.agenda.after(lemon_s, partial(sour, world, run, node))
    _approach_bug(world, run)


def _train(world: World, run: Run) -> None:
    bounds.went_on(world, run)
    steps = run.job.steps - run.step(world.now)
    world.agenda.after(max(0.0, steps * STEP_S), lambda: _finish(world, run))
    detector_stub.watch_progress(world, run)
    _store_next(world, run)


def _store_next(world: World, run: Run) -> None:
    """The next step that is due reaches the store; the executor of rank 0 tells of it."""
    every = run.job.store_every
    if not every or not run.training or run.since_s is None:
        return
    step = (run.step(world.now) // every + 1) * every
    due_s = run.since_s + (step - run.start) * STEP_S + 0.02

    def written() -> None:
        executor = process_of(world, run, run.nodes[0])
        if run.training and executor is not None:
            executor.say_stored(run)
        _store_next(world, run)

    if step <= run.job.steps:
        world.agenda.after(max(0.0, due_s - world.now), written)


def _finish(world: World, run: Run) -> None:
    if not run.training or run.step(world.now) < run.job.steps:
        return
    for node in run.nodes:
        executor = process_of(world, run, node)
        if executor is not None:
            for rank in run.ranks[node]:
                executor.rank_ends(rank)
    stand_still(world, run, echo=False)


def process_of(world: World, run: Run, node: str) -> Process | None:
    """The node's executor, where it runs ranks of this run."""
    executor = world.machines[node].executor
    return executor if executor is not None and executor.run is run else None


# ---------------------------------------------------------------- what goes wrong in it


def stand_still(world: World, run: Run, *, echo: bool = True) -> None:
    """The run gets no further: some peers die of it, the others wait for ever."""
    if run.ended is not None:
        return
    trained = run.training
    run.stand_still(world.now)
    if trained:
        bounds.stopped(world, run)
    name = run.job.name
    if world.promises.is_own(name, run.epoch):
        world.best[name] = max(world.best[name], run.step(world.now))
        world.store[name] |= run.stored(world.now)
    detector_stub.watch_still(world, run)
    if not echo:
        return
    for node in run.nodes:
        rng = world.rng(node, "loses a peer")
        soon_s = rng.uniform(0.001, 0.02)
        if rng.random() < 0.6:
            world.agenda.after(soon_s, partial(_echo, world, run, node))


def pause(world: World, run: Run, for_s: float, doubt: str) -> None:
    """It stands still for a while, all of it, and goes on by itself unless somebody ends it."""
    if not run.training:
        return
    run.doubt = doubt
    stand_still(world, run, echo=False)
    stood_s = run.stood_s
    world.agenda.after(for_s, lambda: _go_on(world, run) if run.stood_s == stood_s else None)


def _go_on(world: World, run: Run) -> None:
    here = all(process_of(world, run, node) for node in run.nodes)
    ranks = sum(len(run.ranks[node]) for node in run.nodes)
    if here and run.doubt and ranks:
        run.go_on(world.now)
        _train(world, run)
        detector_stub.tell_it_goes_on(world, run)


def _echo(world: World, run: Run, node: str) -> None:
    executor = process_of(world, run, node)
    if executor is not None:
        executor.rank_ends(run.ranks[node][0], code=1, error="echo")


def raise_in(world: World, run: Run, executor: Process) -> None:
    """The user's own code raises in one rank; its peers lose it."""
    world.raised[run.job.name, run.step(world.now)] += 1
    executor.rank_ends(run.ranks[executor.machine.name][0], code=1, error="ValueError")
    stand_still(world, run)


def starve(world: World, run: Run, executor: Process) -> None:
    """The kernel kills a rank, which needs more memory here than there is."""
    at = (run.job.name, run.step(world.now))
    world.killed[at] += 1
    few = world.killed[at] <= MOST_KILLS or len(world.machines) > 1
    require("what-comes-again-is-given-up", few, f"{at}: {world.killed[at]} times")
    executor.rank_ends(run.ranks[executor.machine.name][0], signal=9)
    stand_still(world, run)


def sour(world: World, run: Run, node: str) -> None:
    """A rank on a lemon dies of a signal."""
    executor = process_of(world, run, node)
    if run.training and executor is not None:
        executor.rank_ends(run.ranks[node][0], signal=11)
        stand_still(world, run)


def plant_bug(world: World, name: str, step: int) -> None:
    """From now on the job's own code raises at this step, always."""
    world.bugs.setdefault(name, step)
    for run in list(world.runs.values()):
        if run.job.name == name and run.training:
            _approach_bug(world, run)


def _approach_bug(world: World, run: Run) -> None:
    bug = world.bugs.get(run.job.name)
    if bug is not None and run.since_s is not None:
        left_s = run.since_s + (bug - run.start) * STEP_S - world.now
        if left_s >= 0:
            world.agenda.after(left_s, lambda: _meet_bug(world, run))


def _meet_bug(world: World, run: Run) -> None:
    executor = process_of(world, run, run.nodes[-1])
    if not run.training or executor is None:
        return
    if run.job.name in world.greedy:
        starve(world, run, executor)
    else:
        raise_in(world, run, executor)

"""What the simulated store and memories hold: the truth, what a look shows, and what may begin.

Called by executors and by the course of training. A job's line is what its attempts trained one
after another: a later attempt that began before a point has left that point behind.
"""

from collections import Counter
from collections.abc import Collection

from holdfast.driver.core import events as e
from holdfast.lab.simulator.store_lookup import Point
from holdfast.lab.simulator.violation import Violation, require
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Desired, Restore, Stored


def all_of(world: World, job: str) -> set[Point]:
    """Everything whole that is in the store for a job."""
    runs = [run for (name, _), run in world.runs.items() if name == job and run.training]
    live = [run for run in runs if world.promises.is_own(job, run.epoch)]
    return world.store[job].union(*(run.stored(world.now) for run in live))


def look_up(world: World, job: str) -> tuple[tuple[Stored, ...], tuple[Stored, ...], str]:
    """Whole checkpoints in the store, damaged ones, or why they cannot be known."""
    if not world.jobs[job].store_every:
        return (), (), ""
    if not world.store_up:
        return (), (), "the store does not answer"
    shown, damaged = world.lookup.look(job, all_of(world, job))
    if damaged and not shown:
        return (), (), "Input/output error"
    return tuple(Stored(step=step, epoch=epoch) for step, epoch in sorted(shown)), damaged, ""


def save(world: World, desired: Desired, point: Stored) -> None:
    """Write what all ranks have of this step, if they all have it and the store takes it."""
    assert desired.job is not None
    held = {
        snapshot.rank
        for machine in world.machines.values()
        if machine.up and not machine.cut
        for snapshot in machine.memory.get(desired.job, ())
        if (snapshot.step, snapshot.epoch) == (point.step, point.epoch)
    }
    job = world.jobs[desired.job]
    if world.store_up and held == set(range(job.nodes * job.ranks_per_node)):
        world.store[desired.job].add((point.step, point.epoch))


def acknowledged(world: World, event: e.CheckpointStored) -> None:
    """The driver has it in its journal: somebody may rely on it from now on."""
    if event.epoch > world.anew.get(event.job, -1):
        world.told_stored[event.job].add((event.step, event.epoch))


def possible(world: World, name: str, among: Collection[str]) -> int:
    """The last step that could be restored now from the store and the memory of these nodes."""
    stored = {at for at in all_of(world, name) if (name, at) not in world.lookup.sick}
    held = Counter(
        point
        for machine in world.machines.values()
        if machine.up and machine.name in among
        for point in {(s.step, s.epoch, s.rank) for s in machine.memory.get(name, ())}
    )
    ranks = world.jobs[name].nodes * world.jobs[name].ranks_per_node
    whole = Counter((step, epoch) for step, epoch, _ in held)
    points = stored | {point for point, count in whole.items() if count == ranks}
    return max((step for step, epoch in points if on_line(world, name, step, epoch)), default=0)


def on_line(world: World, name: str, step: int, epoch: int) -> bool:
    """Whether no later attempt began before it."""
    return all(begun >= step for later, begun in world.lines[name] if later > epoch)


def check_restore(world: World, desired: Desired) -> None:
    """What is restored lies on the line of training, and is really there. Where an epoch began that
    was lost with the journal nobody knows: what it had left behind may be gone on from.
    """
    point = desired.restore
    if point is None or desired.job is None:
        return
    own = world.promises.is_own(desired.job, point.epoch)
    require("restore-is-of-the-same-job", own, f"{point} is of an earlier {desired.job}")
    known = [each for each in world.lines[desired.job] if each[0] not in world.lost]
    later = [start for epoch, start in known if epoch > point.epoch]
    if any(start < point.step for start in later):
        raise Violation("restore-on-the-line", f"{point} was rolled back by a start from {later}")
    require("restore-is-there", _is_there(world, desired, point), f"nobody has {point}")


def _is_there(world: World, desired: Desired, point: Restore) -> bool:
    assert desired.job is not None
    if point.source == "store":
        return (point.step, point.epoch) in all_of(world, desired.job)
    for seat in desired.seats:
        held = world.machines[seat.node].memory.get(desired.job, ())
        wanted = (seat.rank, point.step, point.epoch)
        same = [s for s in held if (s.rank, s.step, s.epoch) == wanted]
        if not same and world.machines[seat.node].up:
            return False
    return True


IN_VAIN = 2
"""Starts from a checkpoint after which it may be what ends the ranks."""


def check_start(world: World, name: str, start: int) -> None:
    """No job goes behind what was acknowledged, but where that cannot be read, or ranks started
    from it or from what is newer more than once, or a person says so."""
    starts = Counter(step for _, step in world.lines[name])
    in_vain = max((step for step, times in starts.items() if times >= IN_VAIN), default=-1)
    held = [
        step
        for step, epoch in world.told_stored[name]
        if on_line(world, name, step, epoch)
        and (name, (step, epoch)) not in world.lookup.was_sick
        and step > in_vain
    ]
    if start < max(held, default=0) and name not in world.granted:
        raise Violation(
            "no-start-behind-what-was-acknowledged", f"{name} from {start}, had {max(held)}"
        )
    world.granted.discard(name)

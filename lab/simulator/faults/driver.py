"""Faults of the driver, and what it is told wrongly."""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import connections, people
from holdfast.lab.simulator.driver import Backup
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Finding, Kind, Weight


def kill_driver(world: World, fault: Fault) -> None:
    """It dies at one of the next points where it can, at the latest after a second."""
    if not world.driver.alive:
        return
    world.driver.fuse = fault.dice % 8
    world.agenda.after(1.0, lambda: world.driver.die() if world.driver.fuse is not None else None)


def freeze_driver(world: World, fault: Fault) -> None:
    connections.freeze_driver(world, 5.0 + 55.0 * fault.size)


def false_alarm(world: World, fault: Fault) -> None:
    """Somebody complains, late, of an epoch that is over."""
    job = world.driver.state.jobs.get(whom.job(world, fault))
    if job is None or job.epoch < 2:
        return
    stale = job.epoch - 1
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job=job.name, epoch=stale, node=job.host or None
    )
    world.driver.receive(e.Found(finding=finding))
    world.driver.receive(e.RanksRunning(job=job.name, epoch=stale, node=job.host))


def put_back(world: World, fault: Fault) -> None:
    """The journal of now is put back up to 30 s later, with all that was decided since gone."""
    backup = world.driver.backup()
    world.agenda.after(30 * fault.size, lambda: _put_back(world, backup))


def _put_back(world: World, backup: Backup) -> None:
    if world.driver.alive:
        world.driver.die()
    world.put_back = True
    world.promises.forget()
    world.outs.clear()
    for begun in world.lines.values():
        world.lost.update(epoch for epoch, _ in begun if epoch > backup.state.epoch)
    followed = max(machine.accepted[0] for machine in world.machines.values())
    world.driver.put_back(backup, term=followed)
    known = world.driver.state.jobs
    for name, job in world.jobs.items():
        if name in world.submitted and name not in known:
            world.told_stored[name].clear()  # it is made anew, from its beginning
            world.anew[name] = max((epoch for epoch, _ in world.lines[name]), default=-1)
            people.submit(world, job)

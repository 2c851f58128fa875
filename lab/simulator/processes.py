"""Executors and the driver as processes of the simulated world: how they begin and end.

Called by `simulate`, by faults and by the driver where it dies.
"""

from functools import partial

from holdfast.lab.simulator import connections, detector_stub
from holdfast.lab.simulator.executor import Executor
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.world import World


def boot(world: World, machine: Machine) -> None:
    """Start the node's executor, which then connects."""
    machine.executor = Executor(world, machine, f"{machine.name}-{world.number()}")
    soon_s = world.delay(machine.name, "boots")
    world.agenda.after(soon_s, lambda: connections.connect(world, machine))


def boot_again(world: World, machine: Machine) -> None:
    """As its init does, where it has none."""
    if machine.up and machine.executor is None and not machine.wedged:
        boot(world, machine)


def end_executor(world: World, machine: Machine, *, noticed_s: float) -> None:
    """It is killed, its ranks with it."""
    executor = machine.executor
    if executor is not None:
        executor.kill()
        machine.executor = None
        connections.disconnect(world, executor, noticed_s=noticed_s)


def driver_died(world: World) -> None:
    """Its lines are gone with it; another one is there a moment later."""
    for machine in world.machines.values():
        if machine.executor is not None:
            machine.executor.connected = False
    back_s = world.rng("driver", "returns").uniform(0.1, 5.0)
    world.agenda.after(back_s, lambda: driver_returns(world))


def driver_returns(world: World) -> None:
    """A driver takes over, where none is there."""
    if world.driver.alive:
        return
    world.driver.start()
    for machine in world.machines.values():
        found_s = world.rng(machine.name, "finds a new driver").uniform(0.0, 2.0)
        world.agenda.after(found_s, partial(connections.connect, world, machine))
    for run in list(world.runs.values()):
        detector_stub.watch_progress(world, run)

"""Faults of executors that do not come up or do not stay connected, and of the calls for them."""

from holdfast.lab.simulator import connections, processes
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def wedge(world: World, fault: Fault) -> None:
    """Its executor dies and no other comes up, and the cluster calls the node ready."""
    machine = whom.machine(world, fault)
    if machine.up and not machine.cut:
        world.guilty.add(machine.name)
        machine.wedged = True
        noticed_s = world.rng(machine.name, "wedged").uniform(0.1, 5.0)
        processes.end_executor(world, machine, noticed_s=noticed_s)


def late(world: World, fault: Fault) -> None:
    """Its executor comes up for the first time only after a while."""
    wedge(world, fault)
    machine = whom.machine(world, fault)
    world.agenda.after(20 + 60 * fault.size, lambda: unwedge(world, machine))


def unwedge(world: World, machine: Machine) -> None:
    if machine.wedged:
        machine.wedged = False
        processes.boot_again(world, machine)


def flap(world: World, fault: Fault) -> None:
    """From now on the line of its executor ends every few seconds."""
    machine = whom.machine(world, fault)
    machine.flaps_s = 1.0 + 8 * fault.size
    _flap(world, machine)


def _flap(world: World, machine: Machine) -> None:
    if not machine.flaps_s:
        return
    if machine.executor is not None:
        connections.reset(world, machine.executor)
    world.agenda.after(machine.flaps_s, lambda: _flap(world, machine))


def refuse(world: World, fault: Fault) -> None:
    """For a while the cluster has no room there for anybody's executor."""
    machine = whom.machine(world, fault)
    machine.full = True
    world.agenda.after(5 + 40 * fault.size, lambda: setattr(machine, "full", False))


def slow_calls(world: World, fault: Fault) -> None:
    """Calls to the cluster take longer from now on."""
    world.calls_s = 2 + 10 * fault.size

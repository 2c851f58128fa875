"""To whom it happens: as the dice of a fault choose."""

from holdfast.lab.simulator.machines import Machine, Process
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def machine(world: World, fault: Fault) -> Machine:
    return list(world.machines.values())[fault.dice % len(world.machines)]


def busy(world: World, fault: Fault) -> Process | None:
    """An executor with ranks, if there is one."""
    found = [m.executor for m in world.machines.values() if m.executor and m.executor.run]
    return found[fault.dice % len(found)] if found else None


def job(world: World, fault: Fault) -> str:
    return list(world.jobs)[fault.dice % len(world.jobs)]

"""Faults of what is believed: tests that hang or lie, and bad nodes that pass them."""

from holdfast.lab.simulator import training_run
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.machines import ExamLie, Machine
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def hangs(world: World, fault: Fault) -> None:
    """Tests here do not end, from now on."""
    _set(world, fault, ExamLie.HANGS)


def accuses(world: World, fault: Fault) -> None:
    """Tests here say of each partner that it fails."""
    _set(world, fault, ExamLie.ACCUSES)


def praises(world: World, fault: Fault) -> None:
    """Ranks hang here, and tests say that all is well."""
    machine = _set(world, fault, ExamLie.PRAISES)
    machine.bad = True
    if machine.executor is not None and machine.executor.run is not None:
        training_run.stand_still(world, machine.executor.run, echo=False)


def take_long(world: World, fault: Fault) -> None:
    """Tests of nodes with others take seconds from now on."""
    world.tests_s = 2 + 8 * fault.size


def misleads(world: World, fault: Fault) -> None:
    """A library in the job's image is broken: every node fails its tests of one node alone."""
    world.misled.add(whom.job(world, fault))


def _set(world: World, fault: Fault, exam: ExamLie) -> Machine:
    machine = whom.machine(world, fault)
    world.guilty.add(machine.name)
    machine.exam = exam
    return machine

"""Faults of nodes, of their executors and of their links; and how they are well again."""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import cluster, connections, processes, training_run
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Finding, Kind, Weight

SLOWEST_S = 14.0
"""Of the 20 s in which a node has to say that it has no ranks; what it says may be 5 s late."""


def kill_executor(world: World, fault: Fault) -> None:
    machine = whom.machine(world, fault)
    if machine.up and machine.executor is not None:
        processes.end_executor(world, machine, noticed_s=world.delay(machine.name, "killed"))
        world.agenda.after(0.2 + 4 * fault.size, lambda: processes.boot_again(world, machine))


def lose_node(world: World, fault: Fault) -> None:
    lose(world, whom.machine(world, fault), fault)


def lose_rack(world: World, fault: Fault) -> None:
    rack = whom.machine(world, fault).rack
    for machine in world.machines.values():
        if machine.rack == rack:
            lose(world, machine, fault)


def lose(world: World, machine: Machine, fault: Fault) -> None:
    if not machine.up:
        return
    world.guilty.add(machine.name)
    machine.up = False
    processes.end_executor(
        world, machine, noticed_s=world.rng(machine.name, "lost").uniform(0.01, 0.5)
    )
    machine.memory.clear()
    machine.unkillable = False
    vanished = e.NodeVanished(node=machine.name, why="its lease is over")

    def lease_ends() -> None:
        if not machine.up:
            world.driver.receive(vanished)

    world.agenda.after(world.rng(machine.name, "lease").uniform(0.5, 1.0), lease_ends)
    world.agenda.after(15 + 40 * fault.size, lambda: come_back(world, machine))


def come_back(world: World, machine: Machine) -> None:
    """As a machine that was made anew: the cluster knows nothing of the one before."""
    if not machine.up:
        machine.up, machine.marked = True, False
        cluster.appear(world, machine)
        processes.boot(world, machine)


def cut_node(world: World, fault: Fault) -> None:
    cut(world, whom.machine(world, fault), fault)


def cut_rack(world: World, fault: Fault) -> None:
    rack = whom.machine(world, fault).rack
    for machine in world.machines.values():
        if machine.rack == rack:
            cut(world, machine, fault)


def cut_all(world: World, fault: Fault) -> None:
    for machine in world.machines.values():
        cut(world, machine, fault)


def cut(world: World, machine: Machine, fault: Fault) -> None:
    if machine.cut or not machine.up:
        return
    world.guilty.add(machine.name)
    machine.cut = True
    if machine.executor is not None:
        noticed_s = world.rng(machine.name, "cut").uniform(0.1, 5.0)
        connections.disconnect(world, machine.executor, noticed_s=noticed_s)
    world.agenda.after(60 * fault.size, lambda: heal(world, machine))


def heal(world: World, machine: Machine) -> None:
    if machine.cut:
        machine.cut = False
        cluster.appear(world, machine)
        connections.connect(world, machine)


def bad_node(world: World, fault: Fault) -> None:
    machine = whom.machine(world, fault)
    world.guilty.add(machine.name)
    machine.bad = True
    if machine.executor is not None and machine.executor.run is not None:
        training_run.stand_still(world, machine.executor.run, echo=False)


def part(world: World, fault: Fault) -> None:
    """From now on two machines cannot reach each other; all others reach both."""
    names = sorted(world.machines)
    first = names.pop(fault.dice % len(names))
    two = (first, names[fault.dice // 256 % len(names)])
    world.guilty.update(two)
    world.parted.add((min(two), max(two)))
    for run in list(world.runs.values()):
        if run.training and world.parted_in(run):
            training_run.stand_still(world, run, echo=False)


def lemon(world: World, fault: Fault) -> None:
    """From now on ranks die here some seconds after each start, and no test finds why."""
    machine = whom.machine(world, fault)
    machine.lemon_s = 0.2 + 8 * fault.size
    if machine.executor is not None and machine.executor.run is not None:
        training_run.sour(world, machine.executor.run, machine.name)


def kernel_fault(world: World, fault: Fault) -> None:
    machine = whom.machine(world, fault)
    world.guilty.add(machine.name)
    finding = Finding(
        kind=Kind.KERNEL_FAULT,
        weight=Weight.CONCLUSIVE,
        node=machine.name,
        summary=f"XID 79 on {machine.name}",
    )
    world.driver.receive(e.Found(finding=finding))


def unkillable(world: World, fault: Fault) -> None:
    machine = whom.machine(world, fault)
    if machine.up:
        world.guilty.add(machine.name)
        machine.unkillable = True


def killable(world: World, machine: Machine) -> None:
    if machine.unkillable:
        machine.unkillable = False
        processes.end_executor(world, machine, noticed_s=0.0)
        processes.boot(world, machine)


def slow_quiet(world: World, fault: Fault) -> None:
    """Ranks here take long to be gone, though no longer than a node may without being evicted."""
    whom.machine(world, fault).dies_s = SLOWEST_S * fault.size


def renamed(world: World, fault: Fault) -> None:
    """Another machine has the name at once, before anybody said that the first is gone; where the
    size says so it is bad."""
    machine = whom.machine(world, fault)
    if not machine.up or machine.cut:
        return
    processes.end_executor(world, machine, noticed_s=world.rng(machine.name, "lost").uniform(0, 1))
    machine.up = False
    machine.memory.clear()
    machine.accepted, machine.marked, machine.unkillable = (0, 0), False, False
    world.outs.pop(machine.name, None)
    machine.bad, machine.lemon_s = fault.size > 0.7, None
    if machine.bad:
        world.guilty.add(machine.name)
    takes_s = 0.2 + 8 * fault.size
    world.agenda.after(takes_s, lambda: come_back(world, machine))

"""The lines between executors and the driver: what is said on them, and how they end and begin.

Called by executors, by the driver's effects and by faults.
"""

from functools import partial

from holdfast.driver.core import events as e
from holdfast.lab.simulator.machines import Machine, Process
from holdfast.lab.simulator.violation import require
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Desired

UNANSWERED_S = (10.0, 20.0)
"""Within which an executor leaves a driver that answers no ping: see
docs/decisions/when-many-nodes-reconnect.md."""


def send(world: World, event: e.AnyEvent, executor: Process) -> None:
    """From an executor to the driver: mostly soon, sometimes late, twice, or with the line."""
    # by its tag: a class may get another name, and its dice stay
    rng = world.rng(executor.machine.name, f"says {type(event).__struct_config__.tag}")
    soon_s, late_s, again_s = rng.uniform(0.001, 0.02), rng.uniform(0.0, 5.0), rng.uniform(0, 8)
    dice = rng.random() if world.noisy else 1.0
    if dice < 0.01:
        world.agenda.after(soon_s, lambda: reset(world, executor))
        return
    arrives_s = soon_s if dice > 0.05 else soon_s + late_s
    world.agenda.after(arrives_s, lambda: world.driver.receive(event))
    if dice < 0.03:
        world.agenda.after(again_s, lambda: world.driver.receive(event))


def tell(world: World, desired: Desired) -> None:
    """From the driver to an executor that is connected."""
    known = world.driver.state.nodes.get(desired.node)
    committed = known is not None and known.told.generation >= desired.generation
    require("journal-before-effect", committed, f"{desired.node} is told what is not committed")
    executor = world.machines[desired.node].executor
    if executor is not None and executor.connected:
        soon_s = world.delay(desired.node, "is told")
        world.agenda.after(soon_s, lambda: _arrive(executor, desired))


def _arrive(executor: Process, desired: Desired) -> None:
    machine = executor.machine
    if machine.executor is executor and not machine.cut:
        executor.obey(desired)


def connect(world: World, machine: Machine) -> None:
    """The executor calls the driver, again and again until somebody is there."""
    executor = machine.executor
    if executor is None or executor.connected or machine.cut or not machine.up:
        return
    if not world.driver.alive or world.driver.frozen:
        again_s = world.rng(machine.name, "tries again").uniform(0.1, 2.0)
        world.agenda.after(again_s, lambda: connect(world, machine))
        return
    executor.connected = True
    world.driver.receive(_greeting(machine, executor))
    told = world.driver.told.get(machine.name)
    if told is not None:
        tell(world, told)
    executor.report()


def _greeting(machine: Machine, executor: Process) -> e.ExecutorConnected:
    return e.ExecutorConnected(
        node=machine.name,
        incarnation=executor.incarnation,
        address=f"10.0.0.{machine.name}",
        generation=executor.generation,
        epoch=machine.accepted[1],
    )


def disconnect(world: World, executor: Process, *, noticed_s: float) -> None:
    """The line is dead; the driver notices later, unless it has a newer one by then."""
    if not executor.connected:
        return
    executor.connected = False
    event = e.ExecutorDisconnected(node=executor.machine.name, incarnation=executor.incarnation)

    def notice() -> None:
        newest = executor.machine.executor
        if newest is None or not newest.connected:
            world.driver.receive(event)

    world.agenda.after(noticed_s, notice)


def reset(world: World, executor: Process) -> None:
    """The line ends at once, and the executor calls again."""
    disconnect(world, executor, noticed_s=0.0)
    machine = executor.machine
    back_s = world.rng(machine.name, "connects again").uniform(0.1, 2.0)
    world.agenda.after(back_s, lambda: connect(world, machine))


def freeze_driver(world: World, for_s: float) -> None:
    """Executors whose pings it does not answer leave it, and come back."""
    world.driver.freeze(for_s)
    for machine in world.machines.values():
        if machine.executor is not None and machine.executor.connected:
            left_s = world.rng(machine.name, "gives the driver up").uniform(*UNANSWERED_S)
            if left_s < for_s:
                world.agenda.after(left_s, partial(_give_up, world, machine.executor))


def _give_up(world: World, executor: Process) -> None:
    if world.driver.frozen:
        reset(world, executor)

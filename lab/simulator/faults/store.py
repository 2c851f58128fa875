"""Faults of the store, and of the process at which ranks meet."""

from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World

HUNG, UNMOUNTED = 1, 2


def lose_rendezvous(world: World, fault: Fault) -> None:
    """The next epoch's rendezvous process that begins here dies: with `size`, how soon."""
    whom.machine(world, fault).store_lives_s = fault.size * 0.05


def store_down(world: World, fault: Fault) -> None:
    world.store_up = False
    world.agenda.after(40 * fault.size, lambda: setattr(world, "store_up", True))


def store_slow(world: World, fault: Fault) -> None:
    world.lookup.looks_s = 20 + 100 * fault.size
    world.agenda.after(60 * fault.size, lambda: setattr(world.lookup, "looks_s", 0.0))


def mounts(world: World, fault: Fault) -> None:
    """On some nodes the store hangs, on some it is not mounted, as two bits of the dice say."""
    bits = {name: fault.dice >> 2 * k & 3 for k, name in enumerate(world.machines)}
    world.lookup.hung = frozenset(name for name, two in bits.items() if two == HUNG)
    world.lookup.unmounted = frozenset(name for name, two in bits.items() if two == UNMOUNTED)


def list_lags(world: World, fault: Fault) -> None:
    """What is stored from now on, and what was lately, is not shown for a while."""
    name = whom.job(world, fault)
    world.lookup.hide(name, checkpoints.all_of(world, name), newest=fault.dice % 3)
    world.agenda.after(60 * fault.size, lambda: world.lookup.show(name))


def unreadable(world: World, fault: Fault) -> None:
    name = whom.job(world, fault)
    if found := checkpoints.all_of(world, name):
        world.lookup.sick.add((name, max(found)))

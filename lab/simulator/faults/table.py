"""Every fault by the name that scenarios use; and people who repair whatever is broken."""

from collections.abc import Callable

from holdfast.lab.simulator import processes
from holdfast.lab.simulator.faults import driver, exams, nodes, ranks, store, wishes
from holdfast.lab.simulator.machines import Exam
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def inject(world: World, fault: Fault) -> None:
    """Do it to whom the dice choose."""
    world.blows += 1
    HANDLERS[fault.kind](world, fault)


def repair_all(world: World) -> None:
    """Nothing goes wrong any more, not even on lines."""
    world.noisy = False
    mend(world)


def mend(world: World) -> None:
    """People come: machines, links and store are well again, and a driver is there."""
    world.parted.clear()
    world.store_up = True
    world.shelf.repair()
    processes.driver_returns(world)
    for machine in world.machines.values():
        machine.bad, machine.lemon_s = False, None
        machine.dies_s, machine.exam = 0.0, Exam.HONEST
        nodes.heal(world, machine)
        nodes.come_back(world, machine)
        nodes.killable(world, machine)
        wishes.uncordon(world, machine)


HANDLERS: dict[str, Callable[[World, Fault], None]] = {
    "kill-rank": ranks.kill_rank,
    "blip": ranks.blip,
    "raise": ranks.raise_once,
    "bug": ranks.bug,
    "kill-executor": nodes.kill_executor,
    "lose-node": nodes.lose_node,
    "lose-rack": nodes.lose_rack,
    "cut-node": nodes.cut_node,
    "cut-all": nodes.cut_all,
    "hang": ranks.hang,
    "bad-node": nodes.bad_node,
    "part": nodes.part,
    "lemon": nodes.lemon,
    "kernel-fault": nodes.kernel_fault,
    "unkillable": nodes.unkillable,
    "slow-quiet": nodes.slow_quiet,
    "renamed": nodes.renamed,
    "exam-hangs": exams.hangs,
    "exam-accuses": exams.accuses,
    "exam-praises": exams.praises,
    "lose-rendezvous": store.lose_rendezvous,
    "store-down": store.store_down,
    "store-slow": store.store_slow,
    "list-lags": store.list_lags,
    "unreadable": store.unreadable,
    "kill-driver": driver.kill_driver,
    "freeze-driver": driver.freeze_driver,
    "put-back": driver.put_back,
    "suspend": wishes.suspend,
    "resume": wishes.resume,
    "stop": wishes.stop,
    "delete": wishes.delete,
    "evict": wishes.evict,
    "brake": wishes.brake,
    "maintain": wishes.maintain,
    "drain": wishes.drain,
    "restore": wishes.restore,
    "false-alarm": driver.false_alarm,
}

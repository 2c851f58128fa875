"""Every fault by the name that scenarios use; and people who repair whatever is broken."""

from collections.abc import Callable

from holdfast.lab.simulator import processes
from holdfast.lab.simulator.faults import driver, exams, executors, nodes, ranks, requests, store
from holdfast.lab.simulator.machines import ExamLie
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def inject(world: World, fault: Fault) -> None:
    """Do it to whom the dice choose."""
    world.faults_so_far += 1
    HANDLERS[fault.kind](world, fault)


def repair_all(world: World) -> None:
    """Nothing goes wrong any more, not even on lines."""
    world.noisy = False
    mend(world)


def mend(world: World) -> None:
    """People come: machines, links and store are well again, and a driver is there."""
    world.parted.clear()
    world.store_up = True
    world.lookup.repair()
    world.misled.clear()
    world.calls_s = world.tests_s = 0.0
    processes.driver_returns(world)
    for machine in world.machines.values():
        machine.bad, machine.lemon_s = False, None
        machine.dies_s, machine.exam = 0.0, ExamLie.HONEST
        machine.flaps_s, machine.full = 0.0, False
        nodes.heal(world, machine)
        nodes.come_back(world, machine)
        nodes.killable(world, machine)
        executors.unwedge(world, machine)
        requests.uncordon(world, machine)


HANDLERS: dict[str, Callable[[World, Fault], None]] = {
    "kill-rank": ranks.kill_rank,
    "blip": ranks.blip,
    "raise": ranks.raise_once,
    "pause": ranks.pause,
    "bug": ranks.bug,
    "hungry": ranks.hungry,
    "kill-executor": nodes.kill_executor,
    "lose-node": nodes.lose_node,
    "lose-rack": nodes.lose_rack,
    "cut-node": nodes.cut_node,
    "cut-rack": nodes.cut_rack,
    "cut-all": nodes.cut_all,
    "hang": ranks.hang,
    "bad-node": nodes.bad_node,
    "part": nodes.part,
    "lemon": nodes.lemon,
    "kernel-fault": nodes.kernel_fault,
    "unkillable": nodes.unkillable,
    "slow-quiet": nodes.slow_quiet,
    "renamed": nodes.renamed,
    "wedge": executors.wedge,
    "late": executors.late,
    "flap": executors.flap,
    "refuse": executors.refuse,
    "slow-calls": executors.slow_calls,
    "exam-hangs": exams.hangs,
    "exam-accuses": exams.accuses,
    "exam-praises": exams.praises,
    "slow-tests": exams.take_long,
    "exam-misleads": exams.misleads,
    "lose-rendezvous": store.lose_rendezvous,
    "store-down": store.store_down,
    "store-slow": store.store_slow,
    "list-lags": store.list_lags,
    "mounts": store.mounts,
    "unreadable": store.unreadable,
    "kill-driver": driver.kill_driver,
    "freeze-driver": driver.freeze_driver,
    "put-back": driver.put_back,
    "update": requests.update,
    "suspend": requests.suspend,
    "resume": requests.resume,
    "anew": requests.anew,
    "stop": requests.stop,
    "delete": requests.delete,
    "evict": requests.evict,
    "brake": requests.brake,
    "maintain": requests.maintain,
    "drain": requests.drain,
    "restore": requests.restore,
    "false-alarm": driver.false_alarm,
}

"""What goes wrong, done to the world; the driver is never told of it.

Called by `simulate` when a fault of the scenario is due.
"""

from collections.abc import Callable

from holdfast.driver.core import events as e
from holdfast.lab.simulator.executor import Executor, Machine
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Finding, Kind, Weight


def inject(world: World, fault: Fault) -> None:
    """Do it to whom the dice choose."""
    HANDLERS[fault.kind](world, fault)


def repair_all(world: World) -> None:
    """People come: machines, links and store are well again, and nothing is lost any more."""
    world.noisy = False
    world.parted.clear()
    world.store_up = True
    world.shelf.repair()
    world.driver_returns()
    for machine in world.machines.values():
        machine.bad, machine.lemon_s = False, None
        _heal(world, machine)
        _return(world, machine)
        _killable(world, machine)
        _uncordon(world, machine)


def attend(world: World) -> None:
    """People look after the cluster: evicted nodes are restored, suspended jobs resumed."""
    for node in list(world.driver.state.nodes.values()):
        if node.quarantined or node.notice is not None:
            world.driver.request(e.NodeRestoreRequested(node=node.name, reason="repaired"))
    world.driver.request(e.BrakeReleaseRequested(reason="looked at"))
    for name in world.jobs:
        world.driver.request(e.ResumeRequested(job=name))
        _decide(world, name)


def _decide(world: World, name: str) -> None:
    """A person says where a job begins that found none of what it had stored."""
    job = world.driver.state.jobs.get(name)
    if job is not None and not world.shelf.readable(name, world.all_stored(name)):
        world.grant(name)


def _machine(world: World, fault: Fault) -> Machine:
    return list(world.machines.values())[fault.dice % len(world.machines)]


def _busy(world: World, fault: Fault) -> Executor | None:
    """An executor with ranks, if there is one."""
    found = [m.executor for m in world.machines.values() if m.executor and m.executor.run]
    return found[fault.dice % len(found)] if found else None


def _job(world: World, fault: Fault) -> str:
    return list(world.jobs)[fault.dice % len(world.jobs)]


def _kill_rank(world: World, fault: Fault) -> None:
    if executor := _busy(world, fault):
        run = executor.run
        assert run is not None
        ranks = run.ranks[executor.machine.name]
        executor.rank_ends(ranks[fault.dice % len(ranks)], signal=9 if fault.size < 0.5 else 11)
        world.stand_still(run)


def _blip(world: World, fault: Fault) -> None:
    """Ranks lose each other for a moment, and none of them died."""
    if executor := _busy(world, fault):
        run = executor.run
        assert run is not None
        executor.rank_ends(run.ranks[executor.machine.name][0], code=1, error="echo")
        world.stand_still(run)


def _raise(world: World, fault: Fault) -> None:
    if executor := _busy(world, fault):
        run = executor.run
        assert run is not None
        world.raise_in(run, executor)


def _bug(world: World, fault: Fault) -> None:
    name = _job(world, fault)
    world.plant_bug(name, 1 + fault.dice % world.jobs[name].steps)


def _kill_executor(world: World, fault: Fault) -> None:
    machine = _machine(world, fault)
    if machine.up and machine.executor is not None:
        world.end_executor(machine, noticed_s=world.delay(machine.name, "killed"))
        world.agenda.after(0.2 + 4 * fault.size, lambda: _reboot(world, machine))


def _reboot(world: World, machine: Machine) -> None:
    if machine.up and machine.executor is None:
        world.boot(machine)


def _lose_node(world: World, fault: Fault) -> None:
    _lose(world, _machine(world, fault), fault)


def _lose_rack(world: World, fault: Fault) -> None:
    rack = _machine(world, fault).rack
    for machine in world.machines.values():
        if machine.rack == rack:
            _lose(world, machine, fault)


def _lose(world: World, machine: Machine, fault: Fault) -> None:
    if not machine.up:
        return
    world.guilty.add(machine.name)
    machine.up = False
    world.end_executor(machine, noticed_s=world.rng(machine.name, "lost").uniform(0.01, 0.5))
    machine.memory.clear()
    machine.unkillable = False
    vanished = e.NodeVanished(node=machine.name, why="its lease is over")

    def lease_ends() -> None:
        if not machine.up:
            world.driver.receive(vanished)

    world.agenda.after(world.rng(machine.name, "lease").uniform(0.5, 1.0), lease_ends)
    world.agenda.after(15 + 40 * fault.size, lambda: _return(world, machine))


def _return(world: World, machine: Machine) -> None:
    """As a machine that was made anew: the cluster knows nothing of the one before."""
    if not machine.up:
        machine.up, machine.marked = True, False
        world.appear(machine)
        world.boot(machine)


def _cut_node(world: World, fault: Fault) -> None:
    _cut(world, _machine(world, fault), fault)


def _cut_all(world: World, fault: Fault) -> None:
    for machine in world.machines.values():
        _cut(world, machine, fault)


def _cut(world: World, machine: Machine, fault: Fault) -> None:
    if machine.cut or not machine.up:
        return
    world.guilty.add(machine.name)
    machine.cut = True
    if machine.executor is not None:
        noticed_s = world.rng(machine.name, "cut").uniform(0.1, 5.0)
        world.disconnect(machine.executor, noticed_s=noticed_s)
    world.agenda.after(60 * fault.size, lambda: _heal(world, machine))


def _heal(world: World, machine: Machine) -> None:
    if machine.cut:
        machine.cut = False
        world.appear(machine)
        world.connect(machine)


def _hang(world: World, fault: Fault) -> None:
    if executor := _busy(world, fault):
        run = executor.run
        assert run is not None
        world.stand_still(run, echo=False)


def _bad_node(world: World, fault: Fault) -> None:
    machine = _machine(world, fault)
    world.guilty.add(machine.name)
    machine.bad = True
    if machine.executor is not None and machine.executor.run is not None:
        world.stand_still(machine.executor.run, echo=False)


def _part(world: World, fault: Fault) -> None:
    """From now on two machines cannot reach each other; all others reach both."""
    names = sorted(world.machines)
    first = names.pop(fault.dice % len(names))
    two = (first, names[fault.dice // 256 % len(names)])
    world.guilty.update(two)
    world.parted.add((min(two), max(two)))
    for run in list(world.runs.values()):
        if run.training and world.parted_in(run):
            world.stand_still(run, echo=False)


def _lemon(world: World, fault: Fault) -> None:
    """From now on ranks die here some seconds after each start, and no test finds why."""
    machine = _machine(world, fault)
    machine.lemon_s = 0.2 + 8 * fault.size
    if machine.executor is not None and machine.executor.run is not None:
        world.sour(machine.executor.run, machine.name)


def _kernel_fault(world: World, fault: Fault) -> None:
    machine = _machine(world, fault)
    world.guilty.add(machine.name)
    finding = Finding(
        kind=Kind.KERNEL_FAULT,
        weight=Weight.CONCLUSIVE,
        node=machine.name,
        summary=f"XID 79 on {machine.name}",
    )
    world.driver.receive(e.Found(finding=finding))


def _unkillable(world: World, fault: Fault) -> None:
    machine = _machine(world, fault)
    if machine.up:
        world.guilty.add(machine.name)
        machine.unkillable = True


def _killable(world: World, machine: Machine) -> None:
    if machine.unkillable:
        machine.unkillable = False
        world.end_executor(machine, noticed_s=0.0)
        world.boot(machine)


def _lose_rendezvous(world: World, fault: Fault) -> None:
    """The next epoch's store process that begins here dies: with `size`, how soon."""
    _machine(world, fault).store_lives_s = fault.size * 0.05


def _store_down(world: World, fault: Fault) -> None:
    world.store_up = False
    world.agenda.after(40 * fault.size, lambda: setattr(world, "store_up", True))


def _store_slow(world: World, fault: Fault) -> None:
    world.shelf.looks_s = 20 + 100 * fault.size
    world.agenda.after(60 * fault.size, lambda: setattr(world.shelf, "looks_s", 0.0))


def _list_lags(world: World, fault: Fault) -> None:
    """What is stored from now on, and what was lately, is not shown for a while."""
    name = _job(world, fault)
    world.shelf.hide(name, world.all_stored(name), newest=fault.dice % 3)
    world.agenda.after(60 * fault.size, lambda: world.shelf.show(name))


def _unreadable(world: World, fault: Fault) -> None:
    name = _job(world, fault)
    if stored := world.all_stored(name):
        world.shelf.sick.add((name, max(stored)))


def _kill_driver(world: World, fault: Fault) -> None:
    """It dies at one of the next points where it can, at the latest after a second."""
    if not world.driver.alive:
        return
    world.driver.fuse = fault.dice % 8
    world.agenda.after(1.0, lambda: world.driver.die() if world.driver.fuse is not None else None)


def _freeze_driver(world: World, fault: Fault) -> None:
    world.freeze_driver(5.0 + 55.0 * fault.size)


def _suspend(world: World, fault: Fault) -> None:
    world.driver.request(e.SuspendRequested(job=_job(world, fault)))


def _resume(world: World, fault: Fault) -> None:
    world.driver.request(e.ResumeRequested(job=_job(world, fault)))


def _stop(world: World, fault: Fault) -> None:
    world.driver.request(e.StopRequested(job=_job(world, fault)))


def _delete(world: World, fault: Fault) -> None:
    world.driver.request(e.DeleteRequested(job=_job(world, fault)))


def _evict(world: World, fault: Fault) -> None:
    machine = _machine(world, fault)
    world.asked.add(machine.name)
    world.driver.request(e.NodeEvictRequested(node=machine.name, reason="maintenance"))


def _brake(world: World, fault: Fault) -> None:
    """A person puts it on, or takes it off."""
    kind = e.BrakeApplyRequested if fault.size < 0.5 else e.BrakeReleaseRequested
    world.driver.request(kind(reason="to be sure"))


def _maintain(world: World, fault: Fault) -> None:
    within_s = None if fault.size < 0.3 else 200 * fault.size
    node = _machine(world, fault).name
    event = e.NodeMaintainRequested(node=node, reason="new kernel", within_s=within_s)
    world.driver.request(event)


def _drain(world: World, fault: Fault) -> None:
    """Its executor goes when the driver lets it, or when its time is over; then people are done."""
    machine = _machine(world, fault)
    if machine.up and not machine.cut and not machine.cordoned:
        machine.cordoned = True
        world.appear(machine)
        soon_s = world.delay(machine.name, "drained")
        world.agenda.after(soon_s, lambda: _end_pod(world, machine, 100 * fault.size))
        world.agenda.after(120, lambda: _uncordon(world, machine))


def _end_pod(world: World, machine: Machine, within_s: float) -> None:
    """Somebody ends the executor of the node's job: it is killed when its time is over."""
    node = world.driver.state.nodes.get(machine.name)
    if node is None or node.job is None or not node.allocated:
        return
    job, called, why = node.job, node.told.called, "its pod is evicted"
    ending = e.ExecutorEnding(
        job=job, node=machine.name, why=why, within_s=within_s, evicted=machine.cordoned
    )
    world.driver.receive(ending)

    def over() -> None:
        now = world.driver.state.nodes[machine.name]
        if machine.up and (now.job, now.told.called) == (job, called):
            world.end_executor(machine, noticed_s=world.delay(machine.name, "ended"))
            world.driver.receive(e.ExecutorEnded(job=job, node=machine.name, why=why))
            world.agenda.after(1.0, lambda: _reboot(world, machine))

    world.agenda.after(within_s, over)


def _uncordon(world: World, machine: Machine) -> None:
    if machine.cordoned:
        machine.cordoned = False
        world.appear(machine)


def _restore(world: World, fault: Fault) -> None:
    node = _machine(world, fault).name
    world.driver.request(e.NodeRestoreRequested(node=node, reason="looked at"))


def _false_alarm(world: World, fault: Fault) -> None:
    """Somebody complains, late, of an epoch that is over."""
    job = world.driver.state.jobs.get(_job(world, fault))
    if job is None or job.epoch < 2:
        return
    stale = job.epoch - 1
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job=job.name, epoch=stale, node=job.host or None
    )
    world.driver.receive(e.Found(finding=finding))
    world.driver.receive(e.RanksRunning(job=job.name, epoch=stale, node=job.host))


HANDLERS: dict[str, Callable[[World, Fault], None]] = {
    "kill-rank": _kill_rank,
    "blip": _blip,
    "raise": _raise,
    "bug": _bug,
    "kill-executor": _kill_executor,
    "lose-node": _lose_node,
    "lose-rack": _lose_rack,
    "cut-node": _cut_node,
    "cut-all": _cut_all,
    "hang": _hang,
    "bad-node": _bad_node,
    "part": _part,
    "lemon": _lemon,
    "kernel-fault": _kernel_fault,
    "unkillable": _unkillable,
    "lose-rendezvous": _lose_rendezvous,
    "store-down": _store_down,
    "store-slow": _store_slow,
    "list-lags": _list_lags,
    "unreadable": _unreadable,
    "kill-driver": _kill_driver,
    "freeze-driver": _freeze_driver,
    "suspend": _suspend,
    "resume": _resume,
    "stop": _stop,
    "delete": _delete,
    "evict": _evict,
    "brake": _brake,
    "maintain": _maintain,
    "drain": _drain,
    "restore": _restore,
    "false-alarm": _false_alarm,
}

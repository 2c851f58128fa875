"""What people wish in the middle of it: no faults, but they come at any moment, too."""

from holdfast.driver.core import events as e
from holdfast.lab.simulator import cluster, people, processes
from holdfast.lab.simulator.faults import whom
from holdfast.lab.simulator.machines import Machine
from holdfast.lab.simulator.scenario import Fault
from holdfast.lab.simulator.world import World


def update(world: World, fault: Fault) -> None:
    people.update(world, whom.job(world, fault))


def suspend(world: World, fault: Fault) -> None:
    people.suspend(world, whom.job(world, fault))


def resume(world: World, fault: Fault) -> None:
    people.resume(world, whom.job(world, fault))


def anew(world: World, fault: Fault) -> None:
    people.begin_anew(world, world.jobs[whom.job(world, fault)])


def stop(world: World, fault: Fault) -> None:
    world.driver.request(e.StopRequested(job=whom.job(world, fault)))


def delete(world: World, fault: Fault) -> None:
    world.driver.request(e.DeleteRequested(job=whom.job(world, fault)))


def evict(world: World, fault: Fault) -> None:
    machine = whom.machine(world, fault)
    world.asked.add(machine.name)
    world.driver.request(e.NodeEvictRequested(node=machine.name, reason="maintenance"))


def brake(world: World, fault: Fault) -> None:
    """A person puts it on, or takes it off."""
    kind = e.BrakeApplyRequested if fault.size < 0.5 else e.BrakeReleaseRequested
    world.driver.request(kind(reason="to be sure"))


def maintain(world: World, fault: Fault) -> None:
    within_s = None if fault.size < 0.3 else 200 * fault.size
    people.maintain(world, whom.machine(world, fault).name, within_s)


def drain(world: World, fault: Fault) -> None:
    """Its executor goes when the driver lets it, or when its time is over; then people are done."""
    machine = whom.machine(world, fault)
    if machine.up and not machine.cut and not machine.cordoned:
        machine.cordoned = True
        cluster.appear(world, machine)
        soon_s = world.delay(machine.name, "drained")
        world.agenda.after(soon_s, lambda: _end_pod(world, machine, 100 * fault.size))
        world.agenda.after(120, lambda: uncordon(world, machine))


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
            processes.end_executor(world, machine, noticed_s=world.delay(machine.name, "ended"))
            world.driver.receive(e.ExecutorEnded(job=job, node=machine.name, why=why))
            world.agenda.after(1.0, lambda: processes.boot_again(world, machine))

    world.agenda.after(within_s, over)


def uncordon(world: World, machine: Machine) -> None:
    if machine.cordoned:
        machine.cordoned = False
        cluster.appear(world, machine)


def restore(world: World, fault: Fault) -> None:
    people.restore(world, whom.machine(world, fault).name, "looked at")

"""What tests of a simulated node find. Called by its executor."""

from holdfast.lab.simulator.machines import ExamLie, Machine
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult


def results(
    world: World, machine: Machine, orders: tuple[DiagnosticOrder, ...]
) -> tuple[DiagnosticResult, ...]:
    """Those of one node, in the order of its orders."""
    return tuple(_result(world, machine, order) for order in orders)


def _result(world: World, machine: Machine, order: DiagnosticOrder) -> DiagnosticResult:
    tested = order.members or (machine.name,)
    bad = any(world.machines[name].bad for name in tested)
    if (
        not (bad or order.members)
        and (job := world.holders.works_for(machine.name)) in world.misled
    ):
        bad = True
        world.misjudged[machine.name] = job
    apart = tuple(sorted(order.members)) in world.parted
    if machine.exam is ExamLie.ACCUSES:
        apart = bool(order.members)
    elif machine.exam is ExamLie.PRAISES:
        bad = apart = False
    return DiagnosticResult(
        id=order.id,
        test=order.test,
        node=machine.name,
        round=order.round,
        members=order.members,
        ok=not (bad or apart),
        wrong=bad and not order.members,
    )

"""Made-up nodes of which some are bad, or some cannot reach others: what they tell of their tests.

Called by `simulated`. Nothing is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec

from holdfast.diagnostics.measured import Measured, answered
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

SPREAD = {"compute": 0.05, "allreduce": 0.05, "memory": 0.1, "disk_write": 0.4, "disk_read": 0.4}
"""Of what healthy nodes reach in a test in whose result time has a part: the standard deviation of
its logarithm. Healthy pairs of eight emulated nodes at 100 Mbit/s reached 10.3 to 11.8 MB/s. This
machine with a load of 13 to 22 copied 34 to 50 GB/s, and wrote 2,810 to 5,720 MB/s."""
HEALTHY = 100.0
ALL_LOST = "timed out"

Bad = Mapping[str, tuple[str, float]]
"""Node to the test that it does badly in, and the share of a healthy one's that it reaches."""


class World(msgspec.Struct, frozen=True):
    """Nodes that are bad, and a rack between which and the others something is: `across` as for a
    node that is bad; None: nothing arrives, there `deaf` ends tell nothing either."""

    bad: Bad = {}
    rack: frozenset[str] = frozenset()
    across: tuple[str, float] | None = None
    deaf: bool = False

    def crossed(self, members: Sequence[str]) -> bool:
        """Whether these are on both sides."""
        return len({node in self.rack for node in members}) > 1


def told(
    plan: Mapping[str, Sequence[DiagnosticOrder]], world: World, rng: Random, lies: float
) -> list[DiagnosticResult]:
    """What all nodes tell, of which a share is a lie. What is made up of one test is the same,
    whichever others there are."""
    seed, reached = rng.random(), dict[tuple[object, ...], Measured]()
    found = []
    for node, mine in plan.items():
        for order in mine:
            run = (order.test, order.round, order.members or node)
            if run not in reached:
                own = Random(f"{seed} {run}")
                reached[run] = _reached(order, order.members or (node,), world, own)
            if reached[run].ok is False and world.deaf and node in world.rack:
                continue  # its answer to its own partner never came, and it waits for it
            result = answered(order, node, reached[run])
            said = Random(f"{seed} {run} {node}")
            found.append(_lie(result, said) if said.random() < lies else result)
    return found


def _reached(order: DiagnosticOrder, members: Sequence[str], world: World, rng: Random) -> Measured:
    if world.crossed(members) and world.across is None:
        return Measured(ok=False, detail=ALL_LOST)
    hindered = [world.bad.get(node, ("", 1.0)) for node in members]
    hindered += [world.across] if world.across and world.crossed(members) else []
    share = min((share for test, share in hindered if test == order.test), default=1.0)
    noise = rng.lognormvariate(0.0, SPREAD.get(order.test, 0.0))
    return Measured(ok=True, value=HEALTHY * share * noise)


def _lie(result: DiagnosticResult, rng: Random) -> DiagnosticResult:
    """Anything but what was measured."""
    failed = msgspec.structs.replace(result, ok=False, value=None, detail="a lie")
    value = (result.value or HEALTHY) * rng.choice((0.1, 0.5, 2.0, 10.0))
    return rng.choice((failed, msgspec.structs.replace(result, ok=True, value=value)))


# ---------------------------------------------------------------- faults


SLOW_LINK, HALF_LINK, LOSS = ("allreduce", 0.1), ("allreduce", 0.5), ("datagrams", 0.95)
HALF_SPEED, QUOTA = ("compute", 0.5), ("cpus", 0.5)
SLOW_MEMORY, SLOW_DISK = ("memory", 1 / 3), ("disk_write", 0.1)

Draw = Callable[[list[str], Random], World]


def _one(fault: tuple[str, float]) -> Draw:
    return lambda names, rng: World({rng.choice(names): fault})


def _two(apart: int) -> Draw:
    """So many places from each other."""

    def drawn(names: list[str], rng: Random) -> World:
        at = rng.randrange(len(names))
        return World({names[at]: SLOW_LINK, names[(at + apart) % len(names)]: SLOW_LINK})

    return drawn


def _first_and_last(names: list[str], _rng: Random) -> World:
    return World({names[0]: SLOW_LINK, names[-1]: HALF_SPEED})


def _racks(share: float, across: tuple[str, float] | None = None, *, deaf: bool = False) -> Draw:
    """So many nodes, at random, are in the other rack: two at least, on either side."""

    def drawn(names: list[str], rng: Random) -> World:
        rack = rng.sample(names, max(2, round(share * len(names))))
        return World(rack=frozenset(rack), across=across, deaf=deaf)

    return drawn


def _beside(names: list[str], rng: Random) -> World:
    """Racks as their names go."""
    return World(rack=frozenset(names[: max(2, round(0.3 * len(names)))]))


def _and_a_link(names: list[str], rng: Random) -> World:
    """In the larger rack: in one of two, who would say which of them it is?"""
    rack = _racks(0.3)(names, rng).rack
    others = [node for node in names if node not in rack]
    return World({rng.choice(others): SLOW_LINK}, rack)


FAULTS: Mapping[str, Draw] = {
    "none": lambda _names, _rng: World(),
    "a link at 1/10": _one(SLOW_LINK),
    "a link at 1/2": _one(HALF_LINK),
    "5 % loss": _one(LOSS),
    "compute at 1/2": _one(HALF_SPEED),
    "half the CPUs by quota": _one(QUOTA),
    "memory at 1/3": _one(SLOW_MEMORY),
    "a disk at 1/10": _one(SLOW_DISK),
    "two links at 1/10, paired": _two(1),
    "two links at 1/10, one between": _two(2),
    "first link 1/10, last compute 1/2": _first_and_last,
}
"""Each with some nodes bad, or none."""

PARTITIONS: Mapping[str, Draw] = {
    "rack of 10 % cut off": _racks(0.1),
    "rack of 30 % cut off": _racks(0.3),
    "rack of 50 % cut off": _racks(0.5),
    "rack of 30 % cut off one way": _racks(0.3, deaf=True),
    "rack of 30 % with 5 % loss between": _racks(0.3, LOSS),
    "first 30 % cut off": _beside,
    "rack of 30 % cut off, and a link at 1/10": _and_a_link,
}
"""Between racks: nobody is bad, but for the one link. Of four nodes and more."""

"""Which cases there are, and what a seed of one is: a job, the nodes around it, and its cause."""

from random import Random

import msgspec

from holdfast.lab.simulator.cases import causes_code as code
from holdfast.lab.simulator.cases import causes_nodes as nodes
from holdfast.lab.simulator.cases.cause import Cause

CAUSES: dict[str, type[Cause]] = {
    "passing": code.Passing,
    "lemon": nodes.Lemon,
    "lemon-hourly": nodes.HourlyLemon,
    "lemon-2-hourly": nodes.TwoHourlyLemon,
    "lemon-at-step": nodes.LemonAtStep,
    "two-lemons": nodes.TwoLemons,
    "hanging-node": nodes.HangingNode,
    "bad-link": nodes.BadLink,
    "crashing-code": code.CrashingCode,
    "hanging-code": code.HangingCode,
    "user-once": code.UserErrorOnce,
    "user-always": code.UserError,
    "crash-at-step": code.CrashAtStep,
    "exit-zero": code.ExitZero,
    "too-large": code.TooLarge,
    "neighbour": nodes.Neighbour,
    "bad-version": code.BadVersion,
    "poisoned-point": code.PoisonedPoint,
    "poisoned-step": code.PoisonedStep,
    "evaluation": code.LongEvaluation,
    "flapping": nodes.FlappingLink,
    "silence": code.MassSilence,
    "bad-memory": nodes.BadMemory,
}
"""By the name of the case."""

SIZES = {1: 12, 2: 20, 4: 30, 8: 20, 16: 10, 64: 4, 256: 0.3, 512: 0.2}
"""Nodes of a job, and how often each is drawn, relative to the others. A large one costs as many
times more to play."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is drawn in advance."""

    name: str
    seed: int
    nodes: int
    ranks_per_node: int
    standbys: int
    free: int  # nodes beside those and the standbys
    memory_every: int  # steps between snapshots in memory
    store_every: int  # and between checkpoints

    @property
    def all_nodes(self) -> tuple[str, ...]:
        return tuple(f"n{k}" for k in range(self.nodes + self.standbys + self.free))

    @property
    def cause(self) -> Cause:
        """A new one, the same for whoever plays."""
        return CAUSES[self.name](Random(f"{self.name} {self.seed} cause"))


def draw(name: str, seed: int) -> Case:
    """The case of a seed."""
    rng = Random(f"{name} {seed} draw")
    least = CAUSES[name].least_nodes
    sizes = {size: weight for size, weight in SIZES.items() if size >= least}
    size = 4 if name == "two-lemons" else rng.choices(list(sizes), list(sizes.values()))[0]
    return Case(
        name=name,
        seed=seed,
        nodes=size,
        ranks_per_node=1 if size > 16 else rng.choice((1, 2)),
        standbys=rng.choice((0, 0, 1, 1, 2)),
        free=rng.choice((0, 0, 1, 2, 4)),
        memory_every=rng.choice((1, 5, 20)),
        store_every=rng.choice((120, 300)),
    )

"""What families draw alike: faults from a stream each, and jobs that are worth a fault."""

from collections.abc import Mapping
from random import Random

from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import KINDS, Fault, Scenario, SimJob

HARMLESS = {"kill-rank": 3, "blip": 1, "raise": 1, "kill-executor": 2, "hang": 2}
"""What no node is to blame for, and one restart cures."""
WISHES = ("suspend", "resume", "stop", "delete", "evict", "brake", "maintain", "restore", "update")
ACCIDENTS = {kind: weight for kind, weight in KINDS.items() if kind not in WISHES}
"""All that happens by itself."""


def faults(
    streams: Streams,
    purpose: str,
    kinds: Mapping[str, int],
    count: int,
    within: tuple[float, float],
) -> tuple[Fault, ...]:
    """So many, each from a stream of its own."""
    rngs = [streams.of(f"{purpose}-{k}", "draw") for k in range(count)]
    return tuple(
        fault(rng, rng.choices(list(kinds), list(kinds.values()))[0], within) for rng in rngs
    )


def fault(rng: Random, kind: str, within: tuple[float, float]) -> Fault:
    return Fault(rng.uniform(*within), kind, rng.getrandbits(16), rng.random())


def job(rng: Random, number: int, nodes: int, *, steps: int) -> SimJob:
    """A job of so many nodes that saves to a store, or, one of three, does not."""
    return SimJob(
        name=f"job-{number}",
        at_s=rng.uniform(0.0, 3.0),
        nodes=nodes,
        ranks_per_node=rng.randint(1, 2),
        standbys=rng.choice((0, 0, 1)),
        steps=steps,
        store_every=rng.choice((0, 5, 5)),
    )


def filling(streams: Streams, rng: Random, nodes: int, *, steps: int) -> tuple[SimJob, ...]:
    """Two jobs that have nearly all nodes."""
    first = rng.randint(1, nodes - 2)
    sizes = (first, nodes - first - rng.randint(0, 1))
    return tuple(
        job(streams.of(f"job-{k}", "draw"), k, size, steps=steps) for k, size in enumerate(sizes)
    )


def of_family(
    seed: int,
    family: str,
    jobs: tuple[SimJob, ...],
    drawn: tuple[Fault, ...],
    *,
    nodes: int,
    until_s: float,
    racks: int = 2,
) -> Scenario:
    return Scenario(
        seed=seed,
        nodes=nodes,
        racks=racks,
        jobs=jobs,
        faults=drawn,
        family=family,
        until_s=until_s,
    )

"""Families that are large or long: hundreds of nodes, and thirty virtual days."""

from holdfast.driver.core.policy import Policy
from holdfast.lab.simulator.families.drawing import HARMLESS, fault, faults, job
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import STEP_S, Fault, Scenario, SimJob

HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S
MONTH_S = 30 * DAY_S
BETWEEN_FAULTS_S = 6 * HOUR_S
"""Mean. (Meta's 16,384 GPUs of Llama 3 had one interruption each 3 hours.)"""


def hundreds(seed: int) -> Scenario:
    """100 to 300 nodes in racks of 16, a few large jobs, and up to ten faults."""
    streams = Streams(seed)
    rng = streams.of("hundreds", "draw")
    nodes = rng.choice((100, 200, 300))
    sizes = [rng.randint(nodes // 10, nodes // 4) for _ in range(rng.randint(1, 3))]
    kinds = {**HARMLESS, "lose-node": 6, "lose-rack": 2, "cut-node": 3, "bad-node": 2, "lemon": 1}
    kinds |= {"kernel-fault": 2, "kill-driver": 2, "freeze-driver": 1, "store-down": 1}
    return Scenario(
        seed=seed,
        nodes=nodes,
        racks=nodes // 16,
        jobs=tuple(
            job(streams.of(f"job-{k}", "draw"), k, size, steps=60) for k, size in enumerate(sizes)
        ),
        faults=faults(streams, "fault", kinds, rng.randint(2, 10), (2.0, 50.0)),
        family="hundreds",
        until_s=120.0,
    )


def month(seed: int) -> Scenario:
    """Thirty days of two jobs, a fault each six hours or so, and people who come twice a day."""
    streams = Streams(seed)
    rng = streams.of("month", "draw")
    nodes = rng.randint(8, 16)
    first = rng.randint(2, nodes - 4)
    sizes = (first, nodes - 2 - first)
    return Scenario(
        seed=seed,
        nodes=nodes,
        racks=3,
        jobs=tuple(_long(streams, k, size) for k, size in enumerate(sizes)),
        faults=_over_the_month(streams),
        family="month",
        until_s=MONTH_S,
        policy=Policy(),
        repairs_s=DAY_S / 2,
    )


def _long(streams: Streams, number: int, nodes: int) -> SimJob:
    """Of 10 to 25 days, which saves every ten minutes."""
    rng = streams.of(f"job-{number}", "draw")
    return SimJob(
        name=f"job-{number}",
        at_s=rng.uniform(0.0, 60.0),
        nodes=nodes,
        ranks_per_node=1,
        standbys=number,
        steps=int(rng.uniform(10, 25) * DAY_S / STEP_S),
        store_every=int(600 / STEP_S),
    )


def _over_the_month(streams: Streams) -> tuple[Fault, ...]:
    rng = streams.of("month", "faults")
    kinds = {"kill-rank": 8, "blip": 2, "kill-executor": 5, "lose-node": 7, "lose-rack": 1}
    kinds |= {"cut-node": 4, "cut-all": 1, "hang": 4, "bad-node": 2, "lemon": 1, "part": 1}
    kinds |= {"kernel-fault": 2, "unkillable": 1, "lose-rendezvous": 3, "store-down": 2}
    kinds |= {"store-slow": 3, "list-lags": 3, "kill-driver": 6, "freeze-driver": 4, "raise": 1}
    kinds |= {"slow-quiet": 1, "renamed": 1, "exam-hangs": 1, "exam-accuses": 1}
    drawn, at_s = [], 0.0
    while (at_s := at_s + rng.expovariate(1 / BETWEEN_FAULTS_S)) < MONTH_S - DAY_S:
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        drawn.append(fault(rng, kind, (at_s, at_s)))
    return tuple(drawn)

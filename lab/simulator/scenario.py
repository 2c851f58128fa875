"""What a seed stands for: a cluster, its jobs, and what will go wrong when. Pure data.

Made from a seed, or shrunk from a failing one by leaving faults out.
"""

from random import Random

import msgspec

from holdfast.driver.core.policy import Policy
from holdfast.lab.simulator.rng_streams import Streams

KINDS: dict[str, int] = {
    "kill-rank": 8,
    "blip": 2,  # ranks lose each other, and nobody died
    "raise": 3,
    "bug": 2,  # raises at the same step, always
    "kill-executor": 5,
    "lose-node": 7,
    "lose-rack": 2,
    "cut-node": 4,  # its processes go on, and cannot be heard
    "cut-all": 1,
    "hang": 4,
    "bad-node": 2,  # hangs, and its tests fail
    "lemon": 2,  # ranks die there again and again, and its tests pass
    "kernel-fault": 2,
    "unkillable": 1,
    "lose-rendezvous": 3,  # the process at which ranks are to meet dies before or while they do
    "store-down": 2,
    "store-slow": 3,  # to look it through takes a minute or two
    "list-lags": 3,  # what was stored last is not shown yet
    "unreadable": 2,  # one checkpoint's file cannot be read, and others can
    "kill-driver": 6,
    "suspend": 3,
    "resume": 2,
    "stop": 1,
    "delete": 1,
    "evict": 1,
    "brake": 1,
    "maintain": 3,  # a person wants to work on a node
    "drain": 2,  # a node is cordoned, and its executor is told to go
    "restore": 2,
    "false-alarm": 2,  # a finding about an epoch that is over
}
"""Kinds of faults and how often each is drawn, relative to the others."""


FREEZE = "freeze-driver"
"""The driver's process stands still, for 5 s to a minute: not drawn among the others, for it is no
cause of anything."""
FREEZES = 1 / 3
"""Share of the seeds that have one."""


PART = "part"
"""Two nodes cannot reach each other, though all others reach both: drawn beside the others too."""
PARTS = 1 / 6
"""Share of the seeds that have one."""


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong, or that a person does. `dice` chooses where, `size` how much."""

    at_s: float
    kind: str
    dice: int
    size: float


class SimJob(msgspec.Struct, frozen=True):
    """A job to be submitted."""

    name: str
    at_s: float
    nodes: int
    ranks_per_node: int
    standbys: int
    steps: int
    store_every: int  # steps; 0: no store
    deadline_s: float | None = None
    suspend: bool = False
    memory_every: int = 1  # steps


POLICY = Policy(requalify_after_s=8.0, requalify_longest_s=64.0)
"""Trials come while things go wrong, and before people have repaired everything."""
FAULTS_UNTIL_S = 60.0
"""Then people repair everything, and nothing goes wrong any more."""


class Scenario(msgspec.Struct, frozen=True):
    """All that is drawn in advance."""

    seed: int
    nodes: int
    racks: int
    jobs: tuple[SimJob, ...]
    faults: tuple[Fault, ...]
    family: str = "mixed"
    until_s: float = FAULTS_UNTIL_S  # when people repair everything
    policy: Policy = POLICY
    repairs_s: float | None = None  # how often they do so before; None: not before
    heartbeats: bool = False  # the driver's own detectors find what is wrong, by heartbeats
    attended: bool = True  # they restore, resume and release the brake when nothing is wrong


STEP_S = 0.5
"""A training step."""
FIRST_STEP_S = 60.0
"""A job without a step for so long hangs, whatever it waits for."""


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    streams = Streams(seed)
    rng = streams.of("cluster", "draw")
    nodes, racks = rng.randint(2, 8), rng.randint(1, 3)
    count = rng.choice((1, 1, 2, 3))
    jobs = tuple(_job(streams.of(f"job-{k}", "draw"), f"job-{k}", nodes) for k in range(count))
    faults = (*_faults(streams), *_freezes(streams), *_parts(streams))
    return Scenario(seed=seed, nodes=nodes, racks=racks, jobs=jobs, faults=faults)


def _faults(streams: Streams) -> tuple[Fault, ...]:
    """Each from a stream of its own, all within one width: bursts, and faults far apart."""
    rng = streams.of("faults", "draw")
    start_s, width_s = rng.uniform(0.0, 20.0), rng.choice((0.2, 2.0, 40.0))
    count = rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 7))
    return tuple(_fault(streams.of(f"fault-{k}", "draw"), start_s, width_s) for k in range(count))


def _fault(rng: Random, start_s: float, width_s: float) -> Fault:
    at_s = start_s + rng.uniform(0.0, width_s)
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    return Fault(at_s=at_s, kind=kind, dice=rng.getrandbits(16), size=rng.random())


def _freezes(streams: Streams) -> tuple[Fault, ...]:
    """In a third of the seeds the driver stands still, at any moment, beside all else."""
    rng = streams.of("driver", "freezes")
    if rng.random() > FREEZES:
        return ()
    return (Fault(rng.uniform(0.0, FAULTS_UNTIL_S), FREEZE, rng.getrandbits(16), rng.random()),)


def _parts(streams: Streams) -> tuple[Fault, ...]:
    rng = streams.of("network", "parts")
    if rng.random() > PARTS:
        return ()
    return (Fault(rng.uniform(0.0, 30.0), PART, rng.getrandbits(16), rng.random()),)


def _job(rng: Random, name: str, nodes: int) -> SimJob:
    return SimJob(
        name=name,
        at_s=rng.uniform(0.0, 5.0),
        nodes=rng.randint(1, max(1, nodes - 1)),
        ranks_per_node=rng.randint(1, 2),
        standbys=rng.choice((0, 0, 1)),
        steps=rng.randint(10, 60),
        store_every=rng.choice((0, 5)),
        deadline_s=rng.choice((None, None, None, None, 40.0)),
        suspend=rng.random() < 0.03,
    )

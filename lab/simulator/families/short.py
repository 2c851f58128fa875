"""Families of a minute or a few: the driver stands still, exams lie, machines change places."""

from random import Random

from msgspec.structs import replace

from holdfast.lab.simulator.families.drawing import ACCIDENTS, HARMLESS, faults, job
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import FREEZE, Fault, Scenario, SimJob

STALLED_S = (5.0, 45.0)
LEMONS_UNTIL_S = 900.0
"""Until it stands out, tests and a move take some tries: nobody repairs a lemon before."""


def driver_stalled(seed: int) -> Scenario:
    """Once to three times, for 5 to 45 s, beside one thing at most that no node is to blame for."""
    streams = Streams(seed)
    rng = streams.of("driver-stalled", "draw")
    stalls = tuple(_stall(streams.of(f"stall-{k}", "draw")) for k in range(rng.randint(1, 3)))
    beside = faults(streams, "beside", HARMLESS, rng.randint(0, 1), (3.0, 25.0))
    return Scenario(
        seed=seed,
        nodes=6,
        racks=2,
        jobs=_jobs(streams, rng, 6, steps=60),
        faults=(*stalls, *beside),
        family="driver-stalled",
        until_s=150.0,
    )


def _stall(rng: Random) -> Fault:
    low_s, high_s = STALLED_S
    stood_s = rng.uniform(low_s, high_s)
    return Fault(rng.uniform(0.0, 40.0), FREEZE, rng.getrandbits(16), (stood_s - 5.0) / 55.0)


def _jobs(streams: Streams, rng: Random, nodes: int, *, steps: int) -> tuple[SimJob, ...]:
    """One or two, with room for all of them and one node over."""
    first = rng.randint(1, nodes - 2)
    sizes = (first, nodes - 1 - first) if rng.random() < 0.4 else (first,)
    return tuple(
        job(streams.of(f"job-{k}", "draw"), k, size, steps=steps) for k, size in enumerate(sizes)
    )


def doubts(seed: int) -> Scenario:
    """Ranks pause once to three times, while the driver may stand still or be another, beside one
    thing at most that no node is to blame for."""
    streams = Streams(seed)
    rng = streams.of("doubts", "draw")
    beside = {**HARMLESS, "kill-driver": 2, FREEZE: 2}
    drawn = (
        *faults(streams, "pause", {"pause": 1}, rng.randint(1, 3), (3.0, 40.0)),
        *faults(streams, "beside", beside, rng.randint(0, 1), (3.0, 40.0)),
    )
    return _short(seed, "doubts", streams, rng, drawn, nodes=rng.randint(3, 8), until_s=200.0)


def exams(seed: int) -> Scenario:
    """Tests of one node or two hang or lie, and something happens for which nodes are tested."""
    streams = Streams(seed)
    rng = streams.of("exams", "draw")
    liars = {"exam-hangs": 2, "exam-accuses": 2, "exam-praises": 1}
    causes = {"hang": 4, "bad-node": 3, "part": 1, "lemon": 1, "kernel-fault": 1}
    drawn = (
        *faults(streams, "liar", liars, rng.randint(1, 2), (0.0, 20.0)),
        *faults(streams, "cause", causes, rng.randint(1, 3), (3.0, 40.0)),
    )
    return _short(seed, "exams", streams, rng, drawn, nodes=rng.randint(3, 8), until_s=300.0)


def slow_quiet(seed: int) -> Scenario:
    """Ranks take long to be gone, on one to three nodes, whenever they are to be."""
    streams = Streams(seed)
    rng = streams.of("slow-quiet", "draw")
    kinds = {**HARMLESS, "lose-node": 2, "suspend": 1, "kill-driver": 1, "drain": 1}
    drawn = (
        *faults(streams, "slow", {"slow-quiet": 1}, rng.randint(1, 3), (0.0, 5.0)),
        *faults(streams, "cause", kinds, rng.randint(1, 4), (3.0, 60.0)),
    )
    return _short(seed, "slow-quiet", streams, rng, drawn, nodes=rng.randint(3, 8), until_s=180.0)


def put_back(seed: int) -> Scenario:
    """A journal of a moment ago is put back, beside what happens otherwise."""
    streams = Streams(seed)
    rng = streams.of("put-back", "draw")
    kinds = {**HARMLESS, "lose-node": 2, "kill-driver": 2, "suspend": 1, "evict": 1}
    drawn = (
        *faults(streams, "back", {"put-back": 1}, 1, (1.0, 30.0)),
        *faults(streams, "cause", kinds, rng.randint(0, 3), (3.0, 60.0)),
    )
    return _short(seed, "put-back", streams, rng, drawn, nodes=rng.randint(3, 8), until_s=120.0)


def renamed(seed: int) -> Scenario:
    """Another machine has a node's name, before or after that was evicted."""
    streams = Streams(seed)
    rng = streams.of("renamed", "draw")
    kinds = {**HARMLESS, "bad-node": 2, "kernel-fault": 2, "cut-node": 1, "kill-driver": 1}
    drawn = (
        *faults(streams, "another", {"renamed": 1}, rng.randint(1, 2), (3.0, 50.0)),
        *faults(streams, "cause", kinds, rng.randint(0, 2), (3.0, 40.0)),
    )
    return _short(seed, "renamed", streams, rng, drawn, nodes=rng.randint(3, 8), until_s=180.0)


def lemons(seed: int) -> Scenario:
    """On one or two of five to eight nodes ranks die again and again, and no test finds why."""
    streams = Streams(seed)
    rng = streams.of("lemons", "draw")
    nodes, count = rng.randint(5, 8), rng.randint(1, 2)
    drawn = (
        *faults(streams, "lemon", {"lemon": 1}, count, (0.0, 20.0)),
        *faults(streams, "beside", HARMLESS, rng.randint(0, 1), (3.0, 40.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, rng.randint(2, nodes - count - 1), steps=120),)
    return Scenario(
        seed=seed,
        nodes=nodes,
        racks=2,
        jobs=jobs,
        faults=drawn,
        family="lemons",
        until_s=LEMONS_UNTIL_S,
    )


def heartbeats(seed: int) -> Scenario:
    """What only detectors find, and what must not be found, by the driver's own detectors."""
    streams = Streams(seed)
    rng = streams.of("heartbeats", "draw")
    found = {"hang": 3, "bad-node": 2, "lose-node": 3, "cut-node": 3, "part": 1}
    beside = {"pause": 2, "kill-rank": 2, "kill-executor": 1, "kill-driver": 2, FREEZE: 2}
    drawn = (
        *faults(streams, "found", found, rng.randint(1, 2), (5.0, 40.0)),
        *faults(streams, "beside", beside, rng.randint(0, 2), (5.0, 40.0)),
    )
    nodes = rng.randint(3, 8)
    short = _short(seed, "heartbeats", streams, rng, drawn, nodes=nodes, until_s=120.0)
    return replace(short, heartbeats=True)


def unattended(seed: int) -> Scenario:
    """Machines become well again, and nobody restores a node, resumes a job or looks at a brake."""
    streams = Streams(seed)
    rng = streams.of("unattended", "draw")
    drawn = faults(streams, "fault", ACCIDENTS, rng.randint(1, 5), (0.0, 90.0))
    nodes = rng.randint(3, 8)
    return _short(
        seed, "unattended", streams, rng, drawn, nodes=nodes, until_s=120.0, attended=False
    )


def _short(
    seed: int,
    family: str,
    streams: Streams,
    rng: Random,
    drawn: tuple[Fault, ...],
    *,
    nodes: int,
    until_s: float,
    attended: bool = True,
) -> Scenario:
    return Scenario(
        seed=seed,
        nodes=nodes,
        racks=rng.randint(1, 3),
        jobs=_jobs(streams, rng, nodes, steps=rng.randint(20, 120)),
        faults=drawn,
        family=family,
        until_s=until_s,
        attended=attended,
    )

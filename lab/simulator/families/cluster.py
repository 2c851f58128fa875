"""Families in which the cluster is slow, full, or has parts that are not heard or not reached."""

from msgspec.structs import replace

from holdfast.lab.simulator.families.drawing import faults, filling, job, of_family
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob


def slow_calls(seed: int) -> Scenario:
    """Calls to the cluster take seconds, some nodes have no room, some have no executor yet."""
    streams = Streams(seed)
    rng = streams.of("slow-calls", "draw")
    nodes = rng.randint(4, 8)
    kinds = {"refuse": 4, "lose-node": 3, "maintain": 3, "kill-rank": 2, "kill-driver": 2}
    drawn = (
        *faults(streams, "slow", {"slow-calls": 1}, 1, (0.0, 0.0)),
        *faults(streams, "early", {"refuse": 2, "late": 1}, rng.randint(0, 2), (0.0, 0.0)),
        *faults(streams, "cause", kinds, rng.randint(1, 4), (3.0, 60.0)),
    )
    jobs = filling(streams, rng, nodes, steps=rng.randint(60, 240))
    return of_family(seed, "slow-calls", jobs, drawn, nodes=nodes, until_s=300.0)


def crowded(seed: int) -> Scenario:
    """Nearly every node is at work, people want some of them free, and others are lost."""
    streams = Streams(seed)
    rng = streams.of("crowded", "draw")
    nodes, at_s = rng.randint(4, 8), rng.uniform(25.0, 40.0)
    drawn = (
        *faults(streams, "slow", {"slow-calls": 1}, 1, (0.0, 0.0)),
        *faults(streams, "notice", {"maintain": 1}, rng.randint(1, 2), (at_s, at_s + 2.0)),
        *faults(streams, "lost", {"lose-node": 1}, rng.randint(1, 2), (at_s, at_s + 8.0)),
    )
    jobs = filling(streams, rng, nodes, steps=300)
    return of_family(seed, "crowded", jobs, drawn, nodes=nodes, until_s=250.0)


def switch(seed: int) -> Scenario:
    """Many small jobs behind a switch that goes quiet for up to a minute."""
    streams = Streams(seed)
    rng = streams.of("switch", "draw")
    nodes = rng.randint(8, 12)
    drawn = faults(streams, "quiet", {"cut-rack": 1}, 1, (5.0, 20.0))
    jobs = tuple(
        job(streams.of(f"job-{k}", "draw"), k, rng.randint(1, 2), steps=160)
        for k in range(nodes // 2)
    )
    return of_family(
        seed, "switch", jobs, drawn, nodes=nodes, until_s=150.0, racks=rng.randint(2, 4)
    )


def flapping(seed: int) -> Scenario:
    """A node stays without an executor, another flaps, and the driver restarts."""
    streams = Streams(seed)
    rng = streams.of("flapping", "draw")
    nodes, at_s = rng.randint(5, 8), rng.uniform(5.0, 20.0)
    drawn = (
        *faults(streams, "flap", {"flap": 1}, rng.randint(1, 2), (0.0, 5.0)),
        *faults(streams, "wedge", {"wedge": 1}, 1, (at_s - 0.5, at_s + 1.0)),
        *faults(streams, "driver", {"kill-driver": 1}, 1, (at_s, at_s)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, nodes - 2, steps=200),)
    return of_family(seed, "flapping", jobs, drawn, nodes=nodes, until_s=400.0)


def apart(seed: int) -> Scenario:
    """A small job finds that two nodes cannot reach each other; a large one has to leave two of its
    own, and those of the small one are free."""
    streams = Streams(seed)
    rng = streams.of("apart", "draw")
    small, large = 3, rng.randint(2, 4)
    nodes, at_s = small + large + rng.randint(0, 1), rng.uniform(40.0, 60.0)
    two = (rng.randrange(small), rng.randrange(small - 1))
    leaves = rng.sample(range(small, small + large), 2)
    drawn = (
        Fault(rng.uniform(0.0, 3.0), "part", two[0] + 256 * two[1], 0.5),
        *(Fault(at_s + rng.uniform(0.0, 0.3), "maintain", node, 0.9) for node in leaves),
    )
    jobs = (_early(streams, 0, small, at_s=0.1), _early(streams, 1, large, at_s=1.0))
    return of_family(seed, "apart", jobs, drawn, nodes=nodes, until_s=150.0, racks=1)


def _early(streams: Streams, number: int, nodes: int, *, at_s: float) -> SimJob:
    own = job(streams.of(f"job-{number}", "draw"), number, nodes, steps=(20, 240)[number])
    return replace(own, at_s=at_s, standbys=0)

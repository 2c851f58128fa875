"""Families in which people want something at a moment when it is easily forgotten."""

from holdfast.lab.simulator.families.drawing import HARMLESS, faults, job, of_family
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import Fault, Scenario


def same_name(seed: int) -> Scenario:
    """Jobs are deleted and submitted again, while the driver restarts or nodes are away."""
    streams = Streams(seed)
    rng = streams.of("same-name", "draw")
    nodes, at_s = rng.randint(1, 4), rng.uniform(5.0, 25.0)
    kinds = {"kill-driver": 6, "cut-node": 2, "kill-executor": 1, "freeze-driver": 1}
    drawn = (
        *faults(streams, "again", {"anew": 1}, 1, (at_s, at_s)),
        *faults(streams, "cause", kinds, rng.randint(1, 3), (at_s - 1.0, at_s + 2.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, nodes, steps=rng.randint(20, 80)),)
    return of_family(seed, "same-name", jobs, drawn, nodes=nodes + rng.randint(0, 1), until_s=120.0)


def updated(seed: int) -> Scenario:
    """Jobs get other versions, in the middle of recoveries, rests and moves, and otherwise."""
    streams = Streams(seed)
    rng = streams.of("updated", "draw")
    nodes, at_s = rng.randint(3, 6), rng.uniform(4.0, 30.0)
    beside = {**HARMLESS, "lose-node": 2, "kill-driver": 3, "freeze-driver": 1, "drain": 2}
    beside |= {"suspend": 2, "resume": 2, "maintain": 1, "kernel-fault": 1, "store-down": 1}
    drawn = (
        *faults(streams, "update", {"update": 1}, rng.randint(1, 4), (at_s - 2.0, at_s + 20.0)),
        *faults(streams, "cause", beside, rng.randint(0, 4), (at_s - 4.0, at_s + 20.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, rng.randint(1, nodes - 1), steps=150),)
    return of_family(seed, "updated", jobs, drawn, nodes=nodes, until_s=200.0)


def maintenance(seed: int) -> Scenario:
    """People announce work on nodes, in the middle of recoveries and otherwise."""
    streams = Streams(seed)
    rng = streams.of("maintenance", "draw")
    nodes, at_s = rng.randint(4, 8), rng.uniform(5.0, 60.0)
    drawn = (
        *faults(streams, "cause", {**HARMLESS, "lose-node": 3}, rng.randint(1, 2), (at_s, at_s)),
        *faults(streams, "notice", {"maintain": 1}, rng.randint(1, 2), (at_s, at_s + 6.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, rng.randint(1, nodes - 2), steps=700),)
    return of_family(seed, "maintenance", jobs, drawn, nodes=nodes, until_s=400.0)


def queue(seed: int) -> Scenario:
    """More jobs than there is room for; some are suspended, some lose nodes, all go on again."""
    streams = Streams(seed)
    rng = streams.of("queue", "draw")
    nodes = rng.randint(3, 6)
    kinds = {"suspend": 4, "resume": 4, "lose-node": 3, "kill-rank": 2, "refuse": 1, "stop": 1}
    drawn = faults(streams, "cause", kinds, rng.randint(3, 8), (2.0, 50.0))
    jobs = tuple(
        job(streams.of(f"job-{k}", "draw"), k, rng.randint(1, nodes - 1), steps=rng.randint(10, 60))
        for k in range(rng.randint(3, 5))
    )
    return of_family(seed, "queue", jobs, drawn, nodes=nodes, until_s=120.0)


def overruled(seed: int) -> Scenario:
    """A node fails, and a person evicts it about when it is in its exam."""
    streams = Streams(seed)
    rng = streams.of("overruled", "draw")
    nodes, at_s, dice = rng.randint(3, 6), rng.uniform(5.0, 20.0), rng.getrandbits(16)
    drawn = (
        Fault(at_s, "kernel-fault", dice, 0.5),
        Fault(at_s + rng.uniform(7.0, 17.0), "evict", dice, 0.5),
        *faults(streams, "beside", HARMLESS, rng.randint(0, 1), (3.0, 40.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, nodes - 1, steps=100),)
    return of_family(seed, "overruled", jobs, drawn, nodes=nodes, until_s=120.0)


def people_evict(seed: int) -> Scenario:
    """Nodes fail at about the time at which people take others out."""
    streams = Streams(seed)
    rng = streams.of("people-evict", "draw")
    nodes, at_s = rng.randint(4, 8), rng.uniform(5.0, 20.0)
    kinds = {"evict": 1, "kernel-fault": 1}
    drawn = faults(streams, "out", kinds, rng.randint(3, nodes), (at_s, at_s + 20.0))
    jobs = (job(streams.of("job-0", "draw"), 0, rng.randint(1, nodes - 2), steps=100),)
    return of_family(seed, "people-evict", jobs, drawn, nodes=nodes, until_s=120.0)

"""Families in which something comes again: tests, exams, a step that a job never gets past."""

from msgspec.structs import replace

from holdfast.lab.simulator.families.drawing import faults, job, of_family
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import KINDS, Fault, Scenario


def wrong_tests(seed: int) -> Scenario:
    """A job's tests of its standbys are wrong, and it recovers now and then from something else."""
    streams = Streams(seed)
    rng = streams.of("wrong-tests", "draw")
    nodes = rng.randint(6, 9)
    drawn = (
        *faults(streams, "wrong", {"exam-misleads": 1}, 1, (0.0, 0.0)),
        *faults(streams, "cause", {"kill-rank": 2, "blip": 1}, rng.randint(1, 3), (10.0, 90.0)),
    )
    own = job(streams.of("job-0", "draw"), 0, rng.randint(1, 3), steps=300)
    jobs = (replace(own, standbys=1),)
    return of_family(seed, "wrong-tests", jobs, drawn, nodes=nodes, until_s=200.0)


def exams_again(seed: int) -> Scenario:
    """Nodes are tested more than once, which takes seconds; what is said may come late or twice."""
    streams = Streams(seed)
    rng = streams.of("exams-again", "draw")
    nodes = rng.randint(3, 6)
    causes = {"hang": 4, "bad-node": 2, "part": 2, "exam-accuses": 1}
    drawn = (
        *faults(streams, "slow", {"slow-tests": 1}, 1, (0.0, 0.0)),
        *faults(streams, "flap", {"flap": 1}, rng.randint(0, 1), (0.0, 5.0)),
        *faults(streams, "cause", causes, rng.randint(2, 4), (3.0, 40.0)),
    )
    jobs = (job(streams.of("job-0", "draw"), 0, rng.randint(2, nodes), steps=120),)
    return of_family(seed, "exams-again", jobs, drawn, nodes=nodes, until_s=300.0)


def suspects(seed: int) -> Scenario:
    """Nodes are suspected while standbys are warm and others free: most are tested off the job, and
    what else happens happens meanwhile."""
    streams = Streams(seed)
    rng = streams.of("suspects", "draw")
    causes = {"hang": 5, "bad-node": 3, "exam-hangs": 1, "exam-accuses": 1, "exam-praises": 1}
    beside = {kind: weight for kind, weight in KINDS.items() if kind not in ("delete", "stop")}
    drawn = (
        *faults(streams, "slow", {"slow-tests": 1}, rng.randint(0, 1), (0.0, 0.0)),
        *faults(streams, "cause", causes, rng.randint(1, 3), (6.0, 40.0)),
        *faults(streams, "beside", beside, rng.randint(0, 3), (6.0, 70.0)),
    )
    size = rng.randint(2, 4)
    own = job(streams.of("job-0", "draw"), 0, size, steps=200)
    other = replace(job(streams.of("job-1", "draw"), 1, 1, steps=60), at_s=rng.uniform(5.0, 40.0))
    jobs = (replace(own, standbys=rng.randint(1, 3), store_every=5), other)
    nodes = size + rng.randint(4, 7)
    return of_family(seed, "suspects", jobs, drawn, nodes=nodes, until_s=300.0)


def again_and_again(seed: int) -> Scenario:
    """The same node fails two to four times, and passes its exams in between."""
    streams = Streams(seed)
    rng = streams.of("again-and-again", "draw")
    nodes, dice = rng.randint(3, 6), rng.getrandbits(16)
    count, at_s = rng.randint(2, 4), rng.uniform(5.0, 15.0)
    drawn = tuple(
        Fault(at_s + rng.uniform(18.0, 40.0) * k, "kernel-fault", dice, 0.5) for k in range(count)
    )
    jobs = (job(streams.of("job-0", "draw"), 0, nodes - 1, steps=200),)
    return of_family(seed, "again-and-again", jobs, drawn, nodes=nodes, until_s=200.0)


def hungry(seed: int) -> Scenario:
    """A job of one node needs more memory at one step than that has, and there is no other node."""
    streams = Streams(seed)
    rng = streams.of("hungry", "draw")
    drawn = (
        *faults(streams, "hungry", {"hungry": 1}, 1, (0.0, 3.0)),
        *faults(streams, "beside", {"kill-driver": 1, "blip": 1}, rng.randint(0, 1), (3.0, 40.0)),
    )
    own = job(streams.of("job-0", "draw"), 0, 1, steps=60)
    jobs = (replace(own, standbys=0, memory_every=rng.randint(2, 10)),)
    return of_family(seed, "hungry", jobs, drawn, nodes=1, until_s=900.0)


def mounts(seed: int) -> Scenario:
    """On some nodes the store hangs, on some it is not mounted, and nodes are lost."""
    streams = Streams(seed)
    rng = streams.of("mounts", "draw")
    nodes, at_s = rng.randint(3, 8), rng.uniform(8.0, 25.0)
    drawn = (
        *faults(streams, "mounts", {"mounts": 1}, 1, (at_s - 1.0, at_s)),
        *faults(streams, "lost", {"lose-node": 3, "lose-rack": 1}, rng.randint(1, 2), (at_s, 30.0)),
    )
    own = job(streams.of("job-0", "draw"), 0, rng.randint(1, nodes - 1), steps=100)
    return of_family(seed, "mounts", (own,), drawn, nodes=nodes, until_s=300.0)

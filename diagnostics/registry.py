"""The tests there are, by name. Pure; asked by plan, thresholds, verdict and runner.

A new test is one entry in `TESTS` and one file in `probes/` that has its name (and, where a node
class may name its threshold, a field of that name in the job spec's `NodeClass`). Nothing else of
this package or of the driver may ask for a test by its name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Literal

import msgspec

from holdfast.diagnostics.calibration import Calibration


class Part(StrEnum):
    """What of a node is bad."""

    COMPUTE = "compute"  # wrong or too slow in every round
    MEMORY = "memory"  # of the host, or of a GPU
    BUS = "bus"  # between the host and a GPU
    DISK = "disk"  # where the node's own files are
    CLOCK = "clock"
    LINK = "link"  # computes well, fails with good partners
    NODE = "node"  # nothing was heard of it, and good partners waited in vain


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One test: who runs it with whom, what it costs, and what its failure means.

    Raises `ValueError` where one result alone, which may be a lie, could convict.
    """

    __test__ = False  # pytest: no test of ours

    name: str  # and that of its file in `probes/`
    title: str  # in a line of evidence
    group: Literal[1, 2]  # nodes that run it together
    rounds: int  # times that a node runs it; of two nodes: times round the circle
    unit: str  # of what it measures; more is better
    part: Part  # what a failure points at
    cost: float = 1.0  # of a round, in time boxes: they share out the limit of the exam
    threshold: str = ""  # the node class's name for the least value; "": it names none
    share_of_median: float = 0.5  # the least value where the node class says nothing
    strictest: float = (
        0.75  # share that passes however alike fellows are: a busy machine takes more
    )
    late_fails: bool = True  # whether running out of time tells against the node, or nothing
    least: float = 0.0  # the least value where that is no matter of fellows; 0: it is
    thorough: bool = False  # run where a person asks, and not while a job waits
    calibration: Calibration | None = None  # None: nobody has calibrated it

    def __post_init__(self) -> None:
        if self.group == 1 and self.rounds < 2:
            raise ValueError(f"rounds of {self.name}: {self.rounds}. Run it 2 times or more.")

    @property
    def bounded_as(self) -> str:
        """The name by which its least value is given; "" where it has no figure."""
        return self.threshold or (self.name if self.unit else "")

    @property
    def sensitivity(self) -> float | None:
        """Share of bad nodes that it finds; None where nobody has calibrated it."""
        return self.calibration.sensitivity if self.calibration else None

    @property
    def false_alarms(self) -> float | None:
        """Share of healthy nodes that it fails; None where nobody has calibrated it."""
        return self.calibration.false_alarms if self.calibration else None


_ON = "processes on two CPU cores that others shared (load 15), time boxes of 2 s; no GPU"
_COMMAND = "holdfast bench diagnostics --minutes 11"

_COMPUTE = Test(
    name="compute",
    title="compute",
    group=1,
    rounds=2,
    unit="GFLOP/s",
    part=Part.COMPUTE,
    threshold="compute_gflops",
    calibration=Calibration(faulty=88, missed=0, healthy=44, alarms=0, on=_ON, command=_COMMAND),
)
_ALLREDUCE = Test(
    name="allreduce",
    title="neighbour all-reduce",
    group=2,
    rounds=1,
    unit="MB/s",
    part=Part.LINK,
    threshold="allreduce_mb_per_s",
    # Wall time, which a busy machine stretches: 7 of the 10 alarms came beside a busy loop.
    calibration=Calibration(faulty=88, missed=4, healthy=44, alarms=10, on=_ON, command=_COMMAND),
)

_CPUS = Test(
    name="cpus",
    title="CPUs to use",
    group=1,
    rounds=2,
    unit="%",
    part=Part.COMPUTE,
    cost=0.2,
    share_of_median=0.75,  # it is read, not measured: fellows are alike, or differ by design
    thorough=True,
)
_DATAGRAMS = Test(
    name="datagrams",
    title="datagrams that arrive",
    group=2,
    rounds=1,
    unit="%",
    part=Part.LINK,
    cost=0.5,
    least=98.0,  # of 1,000 one in twenty lost is 95, give or take .7
    thorough=True,
)
_MEMORY = Test(
    name="memory",
    title="memory copied",
    group=1,
    rounds=2,
    unit="GB/s",
    part=Part.MEMORY,
    cost=0.8,
    strictest=0.6,  # all processors share it: 34 GB/s beside seven nodes that copied, 50 alone
    late_fails=False,
    thorough=True,
)
_GPU_MEMORY = Test(
    name="gpu_memory",
    title="GPU memory copied",
    group=1,
    rounds=2,
    unit="GB/s",
    part=Part.MEMORY,
    late_fails=False,
    thorough=True,
)
_GPU_HOST = Test(
    name="gpu_host",
    title="copied to and from a GPU",
    group=1,
    rounds=2,
    unit="GB/s",
    part=Part.BUS,
    late_fails=False,
    thorough=True,
)
_DISK_WRITE = Test(
    name="disk_write",
    title="written to disk",
    group=1,
    rounds=2,
    unit="MB/s",
    part=Part.DISK,
    cost=0.6,
    share_of_median=0.25,  # wall time of a device that others use as well: the same disk took
    strictest=0.25,  # up to 2.3 times as long from one time to the next (see `probes.scratch`)
    late_fails=False,
    thorough=True,
)
_DISK_READ = msgspec.structs.replace(_DISK_WRITE, name="disk_read", title="read from disk")
_CLOCK = Test(
    name="clock",
    title="clock",
    group=1,
    rounds=2,
    unit="",
    part=Part.CLOCK,
    cost=0.2,
    late_fails=False,
    thorough=True,
)

_ALONE = (_COMPUTE, _CPUS, _MEMORY, _GPU_MEMORY, _GPU_HOST, _DISK_WRITE, _DISK_READ, _CLOCK)
_PAIRS = (_ALLREDUCE, _DATAGRAMS)
TESTS: dict[str, Test] = {test.name: test for test in (*_ALONE, *_PAIRS)}
"""In the order in which a node runs them; those of one node come before those of two."""


@contextmanager
def only(*names: str) -> Iterator[None]:
    """Have these tests alone for a while: what was recorded with them stays true of them when
    another is registered. For the simulator and tests, in a process that does nothing else."""
    before = dict(TESTS)
    for other in before.keys() - set(names):
        del TESTS[other]
    try:
        yield
    finally:
        TESTS.clear()
        TESTS.update(before)


def tests_of(group: int, *, thorough: bool) -> tuple[Test, ...]:
    """The tests that so many nodes run together; `thorough`: also those that no job waits for."""
    mine = (test for test in TESTS.values() if test.group == group)
    return tuple(test for test in mine if thorough or not test.thorough)

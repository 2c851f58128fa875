"""The detectors that are registered: each listens to something, and keeps to its own."""

from typing import Any

from msgspec.structs import replace

from holdfast.driver.watch import Watch, registry
from holdfast.driver.watch.detector import (
    HearsExecutors,
    HearsJobs,
    HearsNodes,
    LooksAtJobs,
    LooksAtNodes,
)
from holdfast.driver.watch.standstill_detector import Standstills
from holdfast.protocol.faults import Kind

LISTENS = (HearsNodes, HearsJobs, HearsExecutors, LooksAtNodes, LooksAtJobs)


def test_each_listens_to_something_and_a_driver_has_its_own() -> None:
    names = [type(each).__name__ for each in registry.detectors()]
    assert len(set(names)) == len(names)
    deaf = [each for each in registry.detectors() if not isinstance(each, LISTENS)]
    assert deaf == []
    assert not set(map(id, registry.detectors())) & set(map(id, Watch().detectors))


def test_what_finds_nothing_is_missed(cluster: Any) -> None:
    """With all but one of them a standstill is found by nobody else."""
    others = [each for each in registry.detectors() if not isinstance(each, Standstills)]
    found = []
    for detectors in (registry.detectors(), others):
        two = cluster(2, detectors=detectors)
        two.go(5)
        two.running, began_s = False, two.now
        two.alter = lambda seen, world=two, at_s=began_s: replace(
            seen, process="T" if seen.rank == 2 else "S", silent_s=world.now - at_s
        )
        found.append([each.kind for each in two.go(10)])
    assert found == [[Kind.STANDSTILL, Kind.HANG], []]

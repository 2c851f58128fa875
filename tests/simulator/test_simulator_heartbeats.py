"""Simulated lives with the driver's own detectors: a fault shows in heartbeats, is found by those,
decided on, and the job is placed anew. What a detector does not find is missed."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.watch import registry
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings
from holdfast.driver.watch.silence_detector import SilentNodes
from holdfast.driver.watch.standstill_detector import Standstills
from holdfast.lab.simulator.families.table import FAMILIES
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import play, run
from holdfast.lab.simulator.world import World
from holdfast.protocol.faults import Finding, Kind, Weight

JOB = SimJob("job-0", 0.1, 2, 1, 0, 60, 5)
HANG, CUT = Fault(10.0, "hang", 0, 0.5), Fault(10.0, "cut-node", 0, 0.5)
FREEZE = Fault(15.0, "freeze-driver", 0, 0.2)
DETECTORS = registry.detectors


def hit(*faults: Fault) -> Scenario:
    return Scenario(seed=5, nodes=4, racks=1, jobs=(JOB,), faults=faults, heartbeats=True)


def found(world: World) -> list[Finding]:
    entries = world.driver.journal
    return [each.event.finding for each in entries if isinstance(each.event, e.Found)]


def places(world: World) -> list[tuple[str, ...]]:
    """Of each attempt that began."""
    return [run.nodes for run in world.runs.values()]


def without(monkeypatch: pytest.MonkeyPatch, left_out: type[Detector]) -> None:
    others = [each for each in DETECTORS() if not isinstance(each, left_out)]
    monkeypatch.setattr(registry, "detectors", lambda: others)


def test_nothing_is_found_of_a_job_that_nothing_happens_to() -> None:
    world = play(hit())
    assert found(world) == []
    assert len(places(world)) == 1
    assert any(isinstance(each.event, e.ProgressSeen) for each in world.driver.journal)


def test_a_rank_that_stands_still_is_found_and_the_job_starts_again_where_it_was() -> None:
    world = play(hit(HANG))
    said, hang = found(world)
    assert (said.kind, said.weight) == (Kind.STANDSTILL, Weight.REPORT)
    first, second = places(world)
    assert (hang.kind, hang.weight, hang.node) == (Kind.HANG, Weight.RESTART, first[0])
    assert second == first


def test_a_node_that_nobody_hears_is_found_and_its_place_moves() -> None:
    world = play(hit(CUT))
    lost = next(each for each in found(world) if each.kind is Kind.NODE_LOST)
    first, second, *_ = places(world)
    assert (lost.node, lost.weight) == ("n0", Weight.CONCLUSIVE)
    assert "n0" in first
    assert "n0" not in second


def test_a_driver_that_stands_still_finds_nobody_lost() -> None:
    assert found(play(hit(FREEZE))) == []


def test_the_family_has_something_for_both_to_find() -> None:
    lives = [found(play(FAMILIES["heartbeats"](seed))) for seed in range(6)]
    kinds = {finding.kind for each in lives for finding in each}
    assert {Kind.HANG, Kind.NODE_LOST} <= kinds


# ------------------------------------------------------------ it can break


def test_a_detector_that_finds_no_standstill_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, Standstills)
    failure = run(hit(HANG))
    assert failure is not None
    assert failure.rule == "no-job-stands-still-for-long"


def test_a_detector_that_finds_no_silence_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, SilentNodes)
    assert Kind.NODE_LOST not in [each.kind for each in found(play(hit(CUT)))]


class Accuser(Detector):
    """Says of a node that it is lost, though it speaks."""

    def looked(self, context: Context) -> Findings:
        lost = Finding(kind=Kind.NODE_LOST, weight=Weight.CONCLUSIVE, node="n1")
        return (lost,) if context.now > 10.0 else ()


def test_a_detector_that_accuses_the_innocent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "detectors", lambda: (*DETECTORS(), Accuser()))
    failure = run(hit())
    assert failure is not None
    assert failure.rule == "nobody-well-is-found-lost"

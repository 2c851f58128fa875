"""Families of simulated lives: each thing that goes wrong is got over, within bounds."""

import os
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from holdfast.driver.core.attempt import restore_step
from holdfast.driver.core.state.restore_point import Choice
from holdfast.driver.core.testing import off_the_job
from holdfast.lab.simulator.families.table import FAMILIES
from holdfast.lab.simulator.rules import bounds
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import Failure, explain, play, run, run_many

FEW = {
    "mixed": 15,
    "driver-stalled": 15,
    "doubts": 15,
    "exams": 15,
    "slow-quiet": 15,
    "put-back": 15,
    "renamed": 15,
    "lemons": 8,
    "heartbeats": 10,
    "unattended": 15,
    "slow-calls": 10,
    "crowded": 10,
    "switch": 10,
    "flapping": 10,
    "apart": 15,
    "same-name": 15,
    "maintenance": 10,
    "updated": 15,
    "queue": 10,
    "overruled": 15,
    "people-evict": 15,
    "wrong-tests": 10,
    "exams-again": 10,
    "suspects": 15,
    "again-and-again": 15,
    "hungry": 8,
    "mounts": 15,
    "hundreds": 1,
}
"""Seeds of each that take a second or so; `python -m holdfast.lab.simulator` runs many."""
MONTH = "month"
STALLS = 1_000


def failures(family: str, seeds: range) -> Iterator[Failure]:
    return filter(None, (run(FAMILIES[family](seed)) for seed in seeds))


def test_every_family_is_tried() -> None:
    assert {*FEW, MONTH} == {*FAMILIES}


@pytest.mark.parametrize("family", FEW)
def test_every_rule_and_bound_holds_in(family: str) -> None:
    failure = next(failures(family, range(FEW[family])), None)
    assert failure is None, explain(failure)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_always_stands_for_the_same_scenario_of(family: str) -> None:
    assert FAMILIES[family](3) == FAMILIES[family](3)
    assert FAMILIES[family](3).family == family


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_driver_that_is_stopped_at_any_moment_evicts_nobody_and_loses_nothing() -> None:
    lives = run_many(range(STALLS), family="driver-stalled", processes=os.cpu_count() or 2)
    failed = [life.failure for life in lives if life.failure]
    assert not failed, f"{len(failed)} of {STALLS}\n{explain(failed[0])}"
    assert sum(life.outcome.evicted for life in lives) == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_thirty_days_are_got_over() -> None:
    failure = run(FAMILIES[MONTH](0))
    assert failure is None, explain(failure)


# ------------------------------------------------------------ the bounds can break


def hit(kind: str, *, family: str = "mixed", until_s: float = 60.0) -> Scenario:
    """A job of two nodes of four, to which one thing happens."""
    return Scenario(
        seed=5,
        nodes=4,
        racks=1,
        jobs=(SimJob("job-0", 0.1, 2, 1, 0, 60, 5),),
        faults=(Fault(10.0, kind, 0, 0.5),),
        family=family,
        until_s=until_s,
    )


def rule(scenario: Scenario) -> str:
    failure = run(scenario)
    return failure.rule if failure is not None else ""


def test_a_job_that_stands_still_for_too_long_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rule(hit("hang")) == ""
    monkeypatch.setattr(bounds, "LONGEST_S", 2.0)
    assert rule(hit("hang")) == "no-job-stands-still-for-long"


def test_a_recovery_that_costs_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TIMES", 0.5)
    assert rule(hit("hang")) == "a-recovery-is-not-dear"


def test_a_core_that_throws_away_what_was_kept_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot and no checkpoint is ever gone on from, and no step counts as acknowledged."""
    monkeypatch.setattr(restore_step, "chosen", lambda job, told: Choice(None))
    monkeypatch.setattr(restore_step, "hindrance", lambda job, told, point: "")
    monkeypatch.setattr("holdfast.lab.simulator.checkpoints.check_start", lambda *_: None)
    late = replace(hit("kill-rank"), jobs=(SimJob("job-0", 0.1, 2, 1, 0, 500, 5),))
    late = replace(late, faults=(Fault(190.0, "kill-rank", 0, 0.5),), until_s=300.0)
    assert rule(late) == "a-recovery-is-not-dear"


def test_a_node_that_is_well_and_stays_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    lone = replace(hit("lose-node", until_s=900.0), attended=False)
    assert rule(lone) == ""
    monkeypatch.setattr(off_the_job, "following", lambda nodes, exams, brake: [])
    assert rule(lone) == "nobody-well-stays-out"


def test_a_liar_convicts_nobody_who_is_well() -> None:
    """It says of each partner that it fails; a node that hangs is tested beside it."""
    tried = 0
    for seed in range(12):
        world = play(
            replace(
                hit("hang"),
                seed=seed,
                faults=(
                    Fault(0.0, "exam-accuses", seed, 0.5),
                    Fault(10.0, "bad-node", seed + 1, 0.5),
                    Fault(20.0, "hang", 0, 0.5),
                    Fault(30.0, "hang", 1, 0.5),
                ),
            )
        )
        tried += any("tests" in entry.why for entry in world.driver.journal)
        assert set(world.books.evicted) <= world.guilty
    assert tried > 3


@pytest.mark.parametrize(("size", "attempts"), [(0.4, 1), (1.0, 2)])
@pytest.mark.parametrize("doubt", [0, 1])
def test_ranks_that_pause_are_left_alone_unless_it_is_for_long(
    size: float, attempts: int, doubt: int
) -> None:
    paused = replace(hit("pause"), faults=(Fault(10.0, "pause", doubt, size),), until_s=200.0)
    world = play(paused)
    (job,) = world.driver.state.jobs.values()
    assert (job.phase, job.attempt) == ("Succeeded", attempts)
    assert not any(node.record.facts for node in world.driver.state.nodes.values())

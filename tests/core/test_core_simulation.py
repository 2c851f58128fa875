"""Ten thousand simulated lives of cluster and jobs, with the real decision core."""

import os

import pytest

from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob, draw
from holdfast.lab.simulator.simulate import explain, run, run_many, shrink

SEEDS = 10_000


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_rule_holds_and_everything_converges_for_ten_thousand_seeds() -> None:
    failures = run_many(range(SEEDS), processes=os.cpu_count() or 2)
    failures.sort(key=lambda failure: failure.scenario.seed)
    seeds = [failure.scenario.seed for failure in failures]
    assert not failures, f"{len(failures)} seeds fail {seeds[:20]}\n{explain(failures[0])}"


def test_a_seed_always_stands_for_the_same_scenario_and_the_same_life() -> None:
    assert draw(7) == draw(7)
    assert run(draw(7)) is None


def test_a_failure_is_shrunk_and_tells_seed_and_story(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("holdfast.driver.core.eviction.may_evict", lambda turn, silent: True)
    monkeypatch.setattr("holdfast.lab.simulator.simulate.QUIET_LIMIT_S", 500.0)
    failure = run(_everything_is_lost())
    assert failure is not None
    assert failure.rule == "never-too-many-evicted"
    small = shrink(failure)
    assert len(small.scenario.faults) < len(failure.scenario.faults)
    told = explain(failure)
    assert "python -m holdfast.lab.simulator 99" in told
    assert "is evicted" in told


def _everything_is_lost() -> Scenario:
    jobs = (SimJob("job-0", 0.1, 4, 1, 0, 60, 0),)
    lost = tuple(Fault(5.0 + k / 10, "lose-node", k, 0.5) for k in range(4))
    noise = tuple(Fault(2.0 + k, "false-alarm", k, 0.5) for k in range(3))
    return Scenario(seed=99, nodes=4, racks=1, jobs=jobs, faults=noise + lost)

"""Thousands of simulated lives of cluster and jobs, with the real decision core."""

import os
from pathlib import Path

import pytest

from holdfast.driver.core.events import Found
from holdfast.driver.core.job import eviction
from holdfast.lab.simulator import outcomes
from holdfast.lab.simulator.books import Outcome
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob, draw
from holdfast.lab.simulator.simulate import explain, play, run, run_many, shrink

RECORDED_SEEDS = 10_000
SEEDS = int(os.environ.get("HOLDFAST_TEST_SEEDS", "2500"))
"""All of them take a minute and a half of CPU: CI plays them, and who changes the core should."""
AT_ONCE = 1_250
AGAIN = """
Is that what the change is for? Then write down what they come to now:
python -m holdfast.lab.simulator 0 10000 --record tests/core/outcomes.jsonl.xz
"""


RECORDED = Path(__file__).parent / "outcomes.jsonl.xz"


@pytest.fixture(scope="module")
def recorded() -> list[Outcome]:
    before = outcomes.read(RECORDED)
    assert len(before) == RECORDED_SEEDS >= SEEDS
    return before


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_rule_holds_and_each_seed_comes_to_what_it_did(
    recorded: list[Outcome], first: int
) -> None:
    played = range(first, min(first + AT_ONCE, SEEDS))
    lives = run_many(played, processes=os.cpu_count() or 2)
    ends, failures = (
        [each.outcome for each in lives],
        [each.failure for each in lives if each.failure],
    )
    seeds = [failure.scenario.seed for failure in failures]
    assert not failures, f"{len(failures)} seeds fail {seeds[:20]}\n{explain(failures[0])}"
    assert [end.seed for end in ends] == [recorded[seed].seed for seed in played] == [*played]
    assert not outcomes.differing(recorded, ends), outcomes.table(recorded, ends) + AGAIN


def test_a_seed_always_stands_for_the_same_scenario_and_the_same_life() -> None:
    assert draw(7) == draw(7)
    assert run(draw(7)) is None


def test_a_failure_is_shrunk_and_tells_seed_and_story(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(eviction, "may_evict", lambda turn, silent: True)
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


def test_ranks_that_cannot_meet_are_started_again_long_before_a_first_step_is_due() -> None:
    jobs = (SimJob("job-0", 0.1, 4, 1, 0, 60, 0),)
    cured = 0
    for seed in range(40):
        dice = tuple(Fault(0.0, "lose-rendezvous", node, seed / 40) for node in range(4))
        world = play(Scenario(seed=seed, nodes=4, racks=1, jobs=jobs, faults=dice))
        cured += any("died before its ranks had met" in entry.why for entry in world.driver.journal)
        assert not [entry for entry in world.driver.journal if isinstance(entry.event, Found)]
    assert cured > 10

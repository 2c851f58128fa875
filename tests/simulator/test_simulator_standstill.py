"""A driver that stands still in the middle of a recovery, in the simulated world."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from holdfast.driver.core import decide
from holdfast.driver.core import events as e
from holdfast.lab.simulator.scenario import FREEZE, Fault, Scenario, SimJob, draw
from holdfast.lab.simulator.simulate import Failure, explain, run

SEEDS = 1_000
HARMLESS = ("kill-rank", "blip", "raise", "kill-executor", "hang")
"""What no node is to blame for."""


def frozen(seed: int) -> Scenario:
    """Something harmless happens, and a moment later the driver stands still for 5 s to 60."""
    jobs = (SimJob("job-0", 0.1, 2 + seed % 3, 1, seed % 2, 60, 5),)
    faults = (
        Fault(3.0, HARMLESS[seed % len(HARMLESS)], seed, 0.1 + seed % 9 / 10),
        Fault(3.0 + 1.5 * seed / SEEDS, FREEZE, seed, seed % 101 / 100),
    )
    return Scenario(seed=seed, nodes=5, racks=2, jobs=jobs, faults=faults)


def failure(seed: int) -> Failure | None:
    return run(frozen(seed))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_innocent_is_evicted_at_whatever_moment_the_driver_stands_still() -> None:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        failures = [each for each in pool.map(failure, range(SEEDS), chunksize=50) if each]
    assert not failures, f"{len(failures)} of {SEEDS}\n{explain(failures[0])}"


def test_a_standstill_that_is_not_taken_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(decide.HANDLERS, e.Stalled, lambda turn, event: None)
    rules = (each.rule for each in map(failure, range(SEEDS)) if each)
    assert next(rules, None) == "no-innocent-is-evicted"


def test_a_third_of_the_seeds_have_a_driver_that_stands_still_beside_all_else() -> None:
    kinds = [[fault.kind for fault in draw(seed).faults] for seed in range(600)]
    assert 150 < sum(FREEZE in each for each in kinds) < 250

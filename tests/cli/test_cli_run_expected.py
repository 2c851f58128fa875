"""What a run tells its nodes to be warm for is what the driver then makes of its job."""

from pathlib import Path

import msgspec
import pytest

from holdfast.cli.run.options import STORE_EVERY, Options, expected_task, job_of
from holdfast.driver.core.events import Plan
from holdfast.driver.people.spec_to_plan import plan_of
from holdfast.executor.core.model import warm_key
from holdfast.protocol.jobspec import TrainingJob
from holdfast.protocol.messages import Task
from holdfast.protocol.paths import RunPaths
from holdfast.protocol.rankenv import base_environment


def test_how_long_a_rank_may_be_stuck_comes_to_the_detectors() -> None:
    def plan(**asked: float) -> Plan:
        options = Options(command=("python", "train.py"), ranks=1, **asked)  # type: ignore[arg-type]
        job = TrainingJob.model_validate(job_of(options, "train-1234"))
        return plan_of(job, RunPaths(Path("/state")), life="life-1")

    assert plan(stuck_max_s=40.0).stuck_max_s == 40.0
    assert plan().stuck_max_s is None, "three of its floors"


def test_what_is_to_be_kept_comes_to_the_agents() -> None:
    options = Options(command=("python", "train.py"), ranks=1, keep_every=2 * STORE_EVERY)
    job = TrainingJob.model_validate(job_of(options, "train-1234"))
    task = plan_of(job, RunPaths(Path("/state")), life="life-1").task
    assert (task.keep_every_steps, task.store_interval_steps) == (2 * STORE_EVERY, STORE_EVERY)


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_node_is_warm_for_the_very_task_that_the_driver_orders(ranks: int) -> None:
    options = Options(command=("python", "train.py", "--lr", "3e-4"), ranks=ranks)
    expected = msgspec.convert(expected_task(options, "train-1234"), Task)
    job = TrainingJob.model_validate(job_of(options, "train-1234"))
    ordered = plan_of(job, RunPaths(Path("/state")), life="life-1").task
    assert warm_key(expected) == warm_key(ordered)
    assert base_environment({}, expected) == base_environment({}, ordered)

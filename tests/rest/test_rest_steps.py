"""How many steps a job that is over is shown to have made."""

import pytest
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.adapters.rest.views import job_view
from holdfast.driver.core.events import Plan, Reached
from holdfast.driver.core.state.model import Job, Phase, State
from holdfast.driver.core.state.node import Exited
from holdfast.driver.watch.model import JobProgress
from holdfast.protocol.messages import RankStatus, Task


def ended(*statuses: RankStatus, best_step: int | None = None) -> Job:
    plan = Plan(task=Task(command=("train",), workdir="."), nodes=1, ranks_per_node=2)
    exits = tuple(Exited(node="n0", status=status) for status in statuses)
    return made_job("job", plan, phase=Phase.SUCCEEDED, exits=exits, best_step=best_step)


def end(rank: int, step: int, saved: int | None) -> RankStatus:
    return RankStatus(rank=rank, state="exited", exit_code=0, step=step, saved=saved)


@pytest.mark.parametrize(
    ("saved", "best_step", "shown"),
    [
        pytest.param(0, None, (600, True), id="nobody numbered them"),
        pytest.param(300, 2, (600, True), id="a save an epoch"),
        pytest.param(None, 595, (600, False), id="the last heartbeat was of before"),
    ],
)
def test_its_ranks_say_how_far_they_came(
    saved: int | None, best_step: int | None, shown: tuple[int, bool]
) -> None:
    job = ended(end(0, 600, saved), end(1, 601, saved), best_step=best_step)
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=None)
    assert (view.step, view.step_relative) == shown


def test_a_job_that_goes_on_is_as_far_as_it_is_now_and_not_when_it_was_put_aside() -> None:
    job = replace(ended(), phase=Phase.RUNNING, reached=Reached(step=20))
    live = JobProgress(job="job", step=7, best_step=7, relative=True)
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=live)
    assert (view.step, view.step_relative) == (7, True)

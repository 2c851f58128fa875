"""How many steps a job that is over is shown to have made."""

from typing import Any

import pytest
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.cli.status import lines_of
from holdfast.driver.adapters.rest.views import job_view
from holdfast.driver.core.events import Plan, Reached
from holdfast.driver.core.state.model import Job, Phase, State
from holdfast.driver.core.state.node import Exited
from holdfast.driver.core.state.restore_point import RestorePoint, Where
from holdfast.driver.watch import jobs
from holdfast.driver.watch.jobs import RankSeen
from holdfast.driver.watch.model import Expectation, JobProgress
from holdfast.page import status
from holdfast.protocol.messages import RankProgress, RankStatus, Seat, Task


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


def test_a_script_that_told_no_steps_is_not_shown_at_step_0() -> None:
    job = ended(end(0, 0, None), end(1, 0, None))
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=None)
    assert view.step is None
    assert not lines_of(status.stored(view.model_dump(), []))


def test_a_job_that_goes_on_is_as_far_as_it_is_now_and_not_when_it_was_put_aside() -> None:
    job = replace(ended(), phase=Phase.RUNNING, reached=Reached(step=20))
    live = JobProgress(job="job", step=7, best_step=7, relative=True)
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=live)
    assert (view.step, view.step_relative) == (7, True)


def test_each_place_tells_which_processes_its_ranks_are() -> None:
    job = replace(ended(), phase=Phase.RUNNING, layout=ended().layout.with_places(("n0",)))
    live = JobProgress(job="job", step=7, best_step=7)
    pids = {"n0": {0: 4_242}, "n9": {2: 77}}
    (place,) = job_view(State(jobs={"job": job}), job, now=2.0, live=live, pids=pids).places
    assert place.pids == {0: 4_242}


def recovering(live: JobProgress | None, *, restored: int | None = 40) -> Job:
    """In its second attempt, from a step before the one that it had completed."""
    point = RestorePoint(step=restored, epoch=1, where=Where.MEMORY) if restored else None
    seats = (Seat(rank=0, local_rank=0, node="n0", address="10.0.0.1"),) if live else ()
    return replace(ended(best_step=3), phase=Phase.RUNNING, restore=point, seats=seats, attempt=2)


@pytest.mark.parametrize(
    ("live", "restored", "shown"),
    [
        pytest.param(JobProgress(job="job", step=0, best_step=57), 40, (57, 40), id="it starts"),
        pytest.param(JobProgress(job="job", step=43, best_step=57), 40, (57, 40), id="on its way"),
        pytest.param(JobProgress(job="job", step=9, best_step=57), None, (57, 0), id="from 0"),
        pytest.param(JobProgress(job="job", step=58, best_step=58), 40, (58, None), id="further"),
    ],
)
def test_a_job_that_does_steps_again_shows_the_furthest_and_from_where_it_goes_on(
    live: JobProgress, restored: int | None, shown: tuple[int, int | None]
) -> None:
    job = recovering(live, restored=restored)
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=live)
    assert (view.step, view.again_from) == shown
    told = "\n".join(lines_of(status.progress(view.model_dump(), [])))
    assert (f"; it goes on from step {shown[1]}" in told) == (shown[1] is not None)


def test_steps_that_count_from_the_start_of_an_attempt_are_those_of_this_one() -> None:
    live = JobProgress(job="job", step=9, best_step=57, relative=True)
    job = replace(recovering(live), best_step=None)
    view = job_view(State(jobs={"job": job}), job, now=2.0, live=live)
    assert (view.step, view.step_relative, view.again_from) == (9, True, None)


class Counted(dict[int, RankSeen]):
    """How often it was gone through."""

    times = 0

    def items(self) -> Any:
        self.times += 1
        return super().items()


def test_of_many_nodes_each_has_its_own_pids_and_ranks_are_gone_through_once() -> None:
    """Once for each node would be 19 million looks at the ranks of a large job."""
    names = tuple(f"node-{place}" for place in range(64))
    ranks = Counted({rank: seen_of(rank, pid=100 + rank) for rank in range(127, 0, -1)})
    ranks[8] = seen_of(8, pid=0)
    expected = Expectation(job="job", epoch=1, seats=())
    places = {rank: names[rank // 2] for rank in range(128)}
    job = jobs.expect(None, expected, 0.0)
    told = jobs.pids(replace(job, places=places, ranks=ranks))
    assert list(told) == list(names)
    assert told["node-0"] == {1: 101}, "rank 0 was not seen yet"
    assert told["node-4"] == {9: 109}, "of rank 8 it is not known"
    others = {name: own for at, (name, own) in enumerate(told.items()) if at not in (0, 4)}
    assert others == {
        f"node-{at}": {2 * at: 100 + 2 * at, 2 * at + 1: 101 + 2 * at}
        for at in range(1, 64)
        if at != 4
    }
    assert ranks.times == 1


def seen_of(rank: int, *, pid: int) -> RankSeen:
    progress = RankProgress(job="job", epoch=1, rank=rank, step=1, pid=pid)
    return RankSeen(progress=progress, heard_s=0.0, uptime_s=0.0)

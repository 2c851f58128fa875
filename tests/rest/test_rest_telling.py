"""How a job is, in good English: the headline of `why`, and what to type next."""

from typing import Any

import pytest
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.cli.status import lines_of
from holdfast.driver.adapters.rest.telling import why_job
from holdfast.driver.adapters.rest.views import job_view
from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Attempt, Failure, Incident, Job, Phase, State
from holdfast.driver.core.state.node import Held, Node, Quiet
from holdfast.driver.core.state.restore_point import RestorePoint, Where
from holdfast.driver.ports import Entry
from holdfast.driver.watch.model import JobProgress
from holdfast.page import status
from holdfast.protocol.faults import Blame, Kind
from holdfast.protocol.messages import Stored, Task

PLAN = e.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
JOB = made_job("speech", PLAN, since_s=9.0)
CRASH = Incident(
    id=1,
    opened=1,
    kind=Kind.RANK_CRASHED,
    blame=Blame.USER,
    found_s=9.0,
    summary="rank 0 on node-1 ended with exit code 1",
    jobs=("speech",),
    rank=0,
)


class Written:
    """A journal: entry by entry, the first at 14:02:03, at second 4 of the driver's time."""

    def __init__(self, *whys: str) -> None:
        self.whys = whys

    def entries(self, *, after: int = 0, **_: Any) -> list[Entry]:
        return [] if after else [_entry(number, why) for number, why in enumerate(self.whys, 1)]


def _entry(number: int, why: str) -> Entry:
    return Entry(
        sequence=number, term=1, now=3.0 + number, at=f"2026-01-01T14:02:{2 + number:02}+00:00",
        policy=1, event=e.Ticked(), why=why, effects=(), jobs=("speech",), incident=number,
    )  # fmt: skip


def why(
    job: Job, *incidents: Incident, written: Written | None = None, node: Node | None = None
) -> Any:
    nodes = {node.name: node} if node else {}
    known = {each.id: each for each in incidents}
    state = State(jobs={job.name: job}, incidents=known, nodes=nodes)
    return why_job(written or Written(""), state, job, now=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "headline"),
    [
        (Phase.RUNNING, "speech has been Running since 14:02:08"),
        (Phase.SUCCEEDED, "speech succeeded at 14:02:08"),
        (Phase.FAILED, "speech failed at 14:02:08"),
        (Phase.STOPPED, "speech was stopped at 14:02:08"),
    ],
)
def test_the_headline_says_since_when_or_when(phase: Phase, headline: str) -> None:
    assert why(replace(JOB, phase=phase)).headline == headline


def test_the_headline_ends_with_the_reason() -> None:
    failed = replace(JOB, phase=Phase.FAILED, failure=Failure(reason="it is late"))
    assert why(failed).headline == "speech failed at 14:02:08: it is late"


def test_a_job_whose_ranks_never_ran_is_not_said_to_have_logs() -> None:
    failed = replace(JOB, phase=Phase.FAILED)
    assert "holdfast logs speech --rank 0 --stderr" in why(failed, CRASH).fix
    never = why(failed, replace(CRASH, kind=Kind.START_FAILED)).fix
    assert never == "None of its ranks has run: mend that, and start it again."


def test_what_went_on_by_itself_hides_no_fault_and_one_before_is_mentioned() -> None:
    calm = replace(CRASH, id=3, opened=3, kind=Kind.GOES_ON, faults=0)
    told = why(JOB, CRASH, calm, written=Written("crashed", "more", "goes on"))
    assert [line.text for line in told.lines] == ["crashed", "more", "goes on"]
    assert told.details == []
    second = replace(CRASH, id=2, opened=2)
    told = why(JOB, CRASH, second, calm, written=Written("crashed", "again", "goes on"))
    assert [line.text for line in told.lines] == ["again", "goes on"]
    assert told.details == ["1 incident before that: holdfast story speech"]


@pytest.mark.parametrize(
    ("second", "told"),
    [(Kind.SAVE_SKIPPED, ["failed", "second"]), (Kind.STORE_BACK, ["second"])],
)
def test_a_store_that_is_down_is_told_whatever_was_reported_since(
    second: Kind, told: list[str]
) -> None:
    failed = replace(CRASH, kind=Kind.STORE_FAILED)
    since = replace(CRASH, id=2, opened=2, kind=second)
    lines = why(JOB, failed, since, written=Written("failed", "second")).lines
    assert [line.text for line in lines] == told


def test_a_job_that_waits_to_know_what_its_store_has_says_since_when_and_what_to_type() -> None:
    waits = replace(
        JOB,
        phase=Phase.RESTORING,
        waiting="its checkpoint store is still being searched",
        unsure_s=5.0,
    )
    told = why(waits)
    assert "its checkpoint store is still being searched" in told.headline
    assert told.details == ["it waits to learn which checkpoints its store has, since 14:02:04"]
    assert told.fix == "To begin elsewhere: holdfast resume speech --from-start"
    found = Quiet(stored=(Stored(step=70, epoch=1),))
    node = Node(name="n0", holding=Held(job=JOB.name, quiet=found))
    layout = JOB.layout.with_places(("n0",))
    told = why(replace(waits, layout=layout, history=(Attempt(epoch=1),)), node=node)
    assert told.fix.endswith("holdfast resume speech --from-step 70 (or --from-start)")


@pytest.mark.parametrize(("written_s", "ago_s"), [(30.0, 70.0), (None, None)])
def test_a_job_shows_its_last_stored_step_and_how_long_ago_that_was(
    written_s: float | None, ago_s: float | None
) -> None:
    newest = RestorePoint(step=10, epoch=1, where=Where.STORE, written_s=written_s)
    job = replace(JOB, points=(replace(newest, step=5), newest))
    view = job_view(State(jobs={JOB.name: job}), job, now=100.0, live=None)
    assert (view.stored_step, view.stored_s) == (10, ago_s)
    shown = "\n".join(lines_of(status.stored(view.model_dump(), [])))
    assert shown == ("store   step 10, 70 s ago" if ago_s else "store   step 10")


@pytest.mark.parametrize("relative", [False, True])
def test_a_job_that_was_stopped_shows_the_step_that_it_had_reached(relative: bool) -> None:
    job = replace(JOB, phase=Phase.STOPPED, reached=e.Reached(77, relative), best_step=1)
    view = job_view(State(jobs={JOB.name: job}), job, now=100.0, live=None)
    assert (view.step, view.step_relative) == (77, relative)
    live = JobProgress(job=JOB.name, step=5, best_step=5)
    again = job_view(State(jobs={JOB.name: job}), job, now=100.0, live=live)
    assert (again.step, again.step_relative) == (5, False), "it was suspended, and goes on"


def test_a_job_that_trains_and_has_nothing_in_its_store_says_so() -> None:
    spec = {"spec": {"checkpoint": {"storeIntervalSteps": 50}}}
    job = {"phase": "Running", "stored_step": None, "stored_s": None, "step": 7, "spec": spec}
    assert lines_of(status.stored(job, [])) == ["store   no checkpoint yet"]
    assert lines_of(status.stored({**job, "phase": "Stopped"}, [])) == ["store   no checkpoint"]
    assert lines_of(status.stored({**job, "step": None}, [])) == []
    assert lines_of(status.stored({**job, "spec": {}}, [])) == []

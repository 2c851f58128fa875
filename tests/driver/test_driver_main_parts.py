"""The driver's small parts: the plan of a job, and what the detectors are told to expect."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core.events import (
    Budget,
    Found,
    NodeAppeared,
    NodeVanished,
    Plan,
    RanksLeft,
    Reached,
)
from holdfast.driver.core.state.fact import About, Bearing, Hypothesis, Site
from holdfast.driver.core.state.fact import Fact as Noted
from holdfast.driver.core.state.model import Incident, Phase, State
from holdfast.driver.follow.feed import Feed
from holdfast.driver.follow.guard import Guard
from holdfast.driver.people.spec_to_plan import plan_of
from holdfast.driver.ports import Fact
from holdfast.driver.watch import Expectation, Watch
from holdfast.driver.watch.model import JobProgress
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.protocol.jobspec import NodeClass, TrainingJob
from holdfast.protocol.messages import Seat, Task, UploadLimits
from holdfast.protocol.paths import RunPaths
from holdfast.protocol.topology import Topology

PATHS = RunPaths(Path("/runs/one"))


def job(**spec: Any) -> TrainingJob:
    given = {"nodes": 4, "ranksPerNode": 2, "command": ["python", "train.py"], **spec}
    return TrainingJob.model_validate({"metadata": {"name": "gpt"}, "spec": given})


def test_a_plan_has_all_that_the_spec_says() -> None:
    spec = job(
        standbys=1,
        env={"A": "b"},
        topology={"tp": 2, "pp": 2},
        checkpoint={
            "storeUrl": "file:///bucket/gpt",
            "memoryIntervalSteps": 3,
            "keepEverySteps": 100,
            "uploadMbPerS": 5,
            "uploadCpus": 0.5,
            "uploadIdle": True,
        },
        recovery={"user": {"restarts": 7, "windowS": 60}},
        timeouts={"graceS": 4, "hangFloorS": 2},
        logRules=[{"pattern": "NaN", "action": "restart"}],
        suspend=True,
        deadlineS=9,
    )
    plan = plan_of(spec, PATHS, life="life-1")
    assert (plan.nodes, plan.ranks_per_node, plan.standbys) == (4, 2, 1)
    assert plan.topology == plan.task.topology == Topology(dp=2, pp=2, tp=2)
    assert plan.user == Budget(restarts=7, window_s=60)
    assert plan.grace_s == plan.task.grace_s == 4
    assert (plan.hang_floor_s, plan.suspend, plan.deadline_s) == (2, True, 9)
    assert plan.log_rules == (("NaN", "restart"),)
    assert plan.task.log_rules == ("NaN",)
    assert plan.task.store_url == "file:///bucket/gpt/life-1"
    assert plan.task.memory_interval_steps == 3
    assert plan.task.keep_every_steps == 100
    assert plan.task.upload == UploadLimits(mb_per_s=5, cpus=0.5, idle=True)
    assert (plan.task.command, plan.task.env) == (("python", "train.py"), {"A": "b"})
    assert TrainingJob.model_validate_json(plan.spec) == spec


def test_whatever_a_job_says_that_a_node_has_to_reach_is_in_its_plan() -> None:
    """A test of nodes whose least value was left out here would never be judged by it."""
    names = NodeClass.model_fields
    said = {field.alias or name: 7.0 for name, field in names.items()}
    plan = plan_of(job(nodeClass=said), PATHS, life="life-1")
    assert plan.node_class == dict.fromkeys(names, 7.0)


def test_a_finished_job_is_kept_a_week_or_as_long_as_its_spec_says() -> None:
    assert plan_of(job(), PATHS, life="life-1").ttl_s == 7 * 86_400
    assert plan_of(job(ttlS=0), PATHS, life="life-1").ttl_s == 0
    assert plan_of(job(ttlS=31_536_000), PATHS, life="life-1").ttl_s == 31_536_000


def test_what_the_spec_leaves_open_lies_beside_the_logs() -> None:
    task = plan_of(job(), PATHS, life="life-1").task
    assert task.log_root == "/runs/one"
    assert task.store_url == "file:///runs/one/jobs/gpt/checkpoints/life-1"


def test_a_plan_survives_the_journal() -> None:
    plan = plan_of(job(env={"A": "b"}), PATHS, life="life-1")
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


# ---------------------------------------------------------------- what the detectors are told


class RecordingWatch:
    def __init__(self) -> None:
        self.calls: list[object] = []
        self.loss_again: list[bool] = []

    def expect(self, expected: Expectation) -> None:
        self.calls.append((expected.job, expected.epoch, expected.best_step))
        self.loss_again.append(expected.loss_again)

    def figures(self, name: str) -> JobProgress | None:
        known = f"forget {name}" not in self.calls
        return JobProgress(job=name, step=7, best_step=7, relative=True) if known else None

    def forget(self, name: str) -> None:
        self.calls.append(f"forget {name}")

    def keep(self, jobs: set[str]) -> None:
        self.kept = jobs

    def fact(self, node: str, present: bool, now: float) -> None:
        self.calls.append((node, present))


def seated(name: str, epoch: int, *, seats: bool = True, best_step: int = 0) -> State:
    seat = Seat(rank=0, local_rank=0, node="n", address="a")
    found = made_job(
        name,
        Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1),
        epoch=epoch,
        seats=(seat,) if seats else (),
        places=("n0", "n1"),
        best_step=best_step,
    )
    return State(jobs={name: found})


def made(watch: Any, emit: Any) -> Feed:
    guard = Guard(emit, costs="")
    return Feed(watch, guard=guard, daemons=None, emit=emit, now=lambda: 0.0)  # type: ignore[arg-type]


@pytest.fixture
def watched() -> tuple[RecordingWatch, Feed, list[Any]]:
    watch, events = RecordingWatch(), []
    feed = made(watch, events.append)
    # type: ignore[arg-type]
    return watch, feed, events


def test_within_an_epoch_they_are_told_once_a_loss_that_is_none_is_no_question_any_more(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    watch, feed, _ = watched
    before = seated("a", 3).jobs["a"]
    site = Site(words=Kind.LOSS, step=97)
    about = About(job="a", version=before.running.number, site=site)
    fact = Noted(subject=before.subject, what=Kind.LOSS, bearing=Bearing.CONTEXT, about=about)
    for facts in ((fact,), (fact,), (replace(fact, held_for=Hypothesis.USER),)):
        feed.follow(State(jobs={"a": replace(before, facts=facts)}))
    assert watch.loss_again == [True, False]


def test_the_detectors_expect_each_epoch_once_while_it_has_seats(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    watch, feed, _ = watched
    for state in (
        seated("a", 1, seats=False),
        seated("a", 1),
        seated("a", 1, best_step=5),
        seated("a", 2, seats=False),
        seated("a", 2, best_step=7),
        State(),
    ):
        feed.follow(state)
    assert watch.calls == [("a", 1, 0), "forget a", ("a", 2, 7), "forget a"]


def test_how_far_a_job_was_is_told_when_its_ranks_are_followed_no_more(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    """Whoever wanted that: a person, its object, its deadline."""
    _, feed, events = watched
    feed.follow(seated("a", 1))
    assert events == []
    for state in (seated("a", 2, seats=False), seated("a", 3, seats=False)):
        feed.follow(state)
    assert events == [RanksLeft(job="a", reached=Reached(step=7, relative=True))]


def test_what_is_known_of_a_job_is_kept_until_it_ends(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    watch, feed, _ = watched
    state = seated("a", 1)
    suspended = replace(seated("a", 2, seats=False).jobs["a"], phase=Phase.SUSPENDED)
    ended = replace(suspended, phase=Phase.SUCCEEDED)
    for job, kept in ((state.jobs["a"], {"a"}), (suspended, {"a"}), (ended, set())):
        feed.follow(replace(state, jobs={"a": job}))
        assert watch.kept == kept


def told(number: int, kind: Kind, job: str = "a", *, opened: int = 9) -> Incident:
    return Incident(
        id=number,
        opened=opened,
        kind=kind,
        blame=Blame.UNKNOWN,
        found_s=0.0,
        summary="",
        jobs=(job,),
        node="n0",
        closed_s=0.0,
    )


@pytest.mark.parametrize(
    ("incidents", "recalled"),
    [
        ([told(1, Kind.STORE_FAILED)], {Kind.STORE_FAILED: "n0"}),
        ([told(1, Kind.STORE_FAILED), told(2, Kind.STORE_BACK)], {}),
        (
            [told(1, Kind.STORE_BACK), told(2, Kind.STORE_FAILED), told(3, Kind.SAVE_SKIPPED)],
            {Kind.STORE_FAILED: "n0"},
        ),
        ([replace(told(1, Kind.STORE_FAILED), node="n1")], {Kind.STORE_FAILED: "n1"}),
        ([replace(told(1, Kind.STORE_FAILED), node="gone")], {Kind.STORE_FAILED: "n0"}),
        ([told(1, Kind.STORE_NOT_SHARED, "b")], {}),
        ([told(1, Kind.STORE_FAILED, opened=0)], {}),
    ],
    ids=[
        "told",
        "taken back",
        "told again",
        "another node",
        "one that left",
        "of another job",
        "of an earlier life",
    ],
)
def test_what_an_earlier_driver_told_is_recalled_once(
    incidents: list[Incident], recalled: dict[Kind, str]
) -> None:
    state = replace(seated("a", 1), incidents={each.id: each for each in incidents})
    watch = Watch()
    feed = made(watch, print)
    # type: ignore[arg-type]
    feed.follow(state)
    feed.follow(replace(state, incidents={9: told(9, Kind.STORE_FAILED)}))
    assert dict(watch._context.recalled.get("a", {})) == recalled


async def test_what_others_find_wrong_with_a_node_is_a_finding_once(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    _, feed, events = watched
    bad = Fact(node="node-1", problem="GPUMissing is True: 7 of 8", conclusive=True)

    class Told:
        async def facts(self) -> Any:
            for fact in (bad, bad, Fact(node="node-1"), bad):
                yield fact

    await feed.facts(Told())  # type: ignore[arg-type]
    found = [event.finding for event in events if isinstance(event, Found)]
    assert [finding.node for finding in found] == ["node-1", "node-1"]
    assert found[0].kind is Kind.NODE_PROBLEM
    assert found[0].weight is Weight.CONCLUSIVE
    assert "GPUMissing is True: 7 of 8" in found[0].summary


async def test_facts_reach_the_detectors_and_the_core(
    watched: tuple[RecordingWatch, Feed, list[Any]],
) -> None:
    watch, feed, events = watched

    class Cluster:
        async def facts(self) -> Any:
            yield Fact(node="n1", rack="r")
            yield Fact(node="n1", rack="r", distrusted=True)
            yield Fact(node="n1", present=False, why="its lease is over")

    await feed.facts(Cluster())  # type: ignore[arg-type]
    assert watch.calls == [("n1", True), ("n1", True), ("n1", False)]
    assert events == [
        NodeAppeared(node="n1", rack="r", unmarked=True),
        NodeAppeared(node="n1", rack="r"),
        NodeVanished(node="n1", why="its lease is over"),
    ]


def test_two_lives_of_a_job_never_share_a_folder_of_checkpoints() -> None:
    spec = job(checkpoint={"storeUrl": "file:///data/ckpt/"})
    urls = [plan_of(spec, PATHS, life=life).task.store_url for life in ("life-1", "life-2")]
    assert urls == ["file:///data/ckpt/life-1", "file:///data/ckpt/life-2"]

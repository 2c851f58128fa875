"""Ages of what a journal has whose driver ended: "ago" is until now, "for" until it ended."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.cli.offline import Recorded
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core.events import Plan, Ticked
from holdfast.driver.core.state.fact import About, Bearing, Fact, FaultClass, OfLink, OfPoint
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.core.state.node import ExamSetup, Node, Quarantined, Record
from holdfast.driver.core.state.restore_point import Where
from holdfast.driver.formats.encode import encode
from holdfast.driver.ports import Entry
from holdfast.keeper.state import state_path
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Task
from holdfast.protocol.paths import RunPaths

TWO_HOURS_S = 7_200.0
PLAN = Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)


@dataclass
class Ended:
    """A driver whose last entry, at its second 60, was two hours ago."""

    root: Path

    async def with_state(self, state: State) -> Recorded:
        journal = open_sqlite(RunPaths(self.root).journal)
        term = journal.take_over().term
        at = (SystemClock().wall() - timedelta(seconds=TWO_HOURS_S)).isoformat()
        entry = Entry(
            sequence=1, term=term, now=60.0, at=at, policy=1, event=Ticked(), effects=(), why=""
        )
        state = replace(state, sequence=1, term=term)
        await journal.commit([entry], encode(state))
        journal.close()
        return Recorded(self.root)


@pytest.fixture
def ended(tmp_path: Path) -> Ended:
    return Ended(tmp_path)


async def test_what_it_held_against_a_link_is_as_old_as_it_is_now(ended: Ended) -> None:
    nodes = {name: Node(name=name) for name in ("n1", "n2")}
    way = OfLink(source=nodes["n1"].subject, target=nodes["n2"].subject)
    cut = Fact(subject=way, what="unreachable", bearing=Bearing.ACCUSES, at_s=60.0)
    (link,) = (await ended.with_state(State(nodes=nodes, facts=(cut,)))).worst(3)["links"]
    assert TWO_HOURS_S <= link["ago_s"] < TWO_HOURS_S + 100


def accused(name: str) -> Node:
    node = Node(name=name)
    about = About(job="speech", version=1, node=node.subject)
    fact = Fact(
        subject=node.subject,
        what="rank-crashed",
        bearing=Bearing.ACCUSES,
        at_s=60.0,
        about=about,
        fault=FaultClass.DIED,
    )
    return replace(node, record=Record(facts=(fact,)))


async def test_what_it_held_against_a_node_is_as_old_as_it_is_now(ended: Ended) -> None:
    told = (await ended.with_state(State(nodes={"n1": accused("n1")}))).why("n1")["details"]
    assert any("accuses it: rank-crashed, 2 hours ago" in line for line in told), told


async def test_a_node_of_this_machine_ended_with_its_driver(ended: Ended) -> None:
    """And the table of the worst says so as that of all nodes does."""
    state_path(ended.root).write_text("{}")
    run = await ended.with_state(State(nodes={"n1": accused("n1")}))
    assert [each["state"] for each in (*run.nodes(), *run.worst(3)["nodes"])] == ["ended", "ended"]
    assert run.why("n1")["mind"].startswith("Another run begins with nothing against it")


async def test_a_node_that_was_out_as_its_run_ended_waits_for_no_test(ended: Ended) -> None:
    state_path(ended.root).write_text("{}")
    out = Node(name="n1", trust=Quarantined(why="bad", setup=ExamSetup(job="speech"), exam_s=90.0))
    mind = (await ended.with_state(State(nodes={"n1": out}))).why("n1")["mind"]
    assert mind.startswith("Another run begins with nothing against it")


async def test_what_it_held_against_a_job_is_as_old_as_it_is_now(ended: Ended) -> None:
    point = OfPoint(job="speech", step=7, epoch=1, where=Where.MEMORY)
    fact = Fact(subject=point, what="rank 0 died of it", bearing=Bearing.CONVICTS, at_s=60.0)
    over = replace(made_job("speech", PLAN), phase=Phase.SUCCEEDED, since_s=60.0, facts=(fact,))
    told = (await ended.with_state(State(jobs={"speech": over}))).why("speech")["details"]
    assert any("rank 0 died of it, 2 hours ago" in line for line in told), told


async def test_what_a_job_was_at_lasted_until_its_driver_ended(ended: Ended) -> None:
    runs = replace(made_job("speech", PLAN), phase=Phase.RUNNING, submitted_s=10.0, since_s=20.0)
    told = (await ended.with_state(State(jobs={"speech": runs}))).job("speech")
    assert (told["since_s"], told["age_s"]) == (40.0, 50.0)

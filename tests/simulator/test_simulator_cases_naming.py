"""Which cause a driver named: read from its incidents, until they say it themselves."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.fact import (
    Bearing,
    Fact,
    Hypothesis,
    OfCluster,
    OfLink,
    OfNode,
    OfStore,
    Table,
)
from holdfast.driver.core.state.layout import Layout
from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.driver.core.state.versions import Version
from holdfast.lab.simulator.cases.naming import named
from holdfast.protocol.faults import Blame, Kind, Rung
from holdfast.protocol.messages import Task

PLAN = Plan(task=Task(command=("train",), workdir="."), nodes=2, ranks_per_node=1)
JOB = Job(
    name="job",
    versions=(Version(number=1, plan=PLAN, at_s=0.0),),
    layout=Layout(nodes=2, ranks_per_node=1),
    phase=Phase.RUNNING,
    number=1,
    submitted_s=0.0,
    since_s=0.0,
)
CRASH = Incident(
    id=1,
    opened=1,
    kind=Kind.RANK_CRASHED,
    blame=Blame.UNKNOWN,
    found_s=10.0,
    summary="a rank died",
    jobs=("job",),
    node="n0",
    rung=Rung.IN_PLACE,
)
LINK = OfLink(source=OfNode(name="n0"), target=OfNode(name="n1"))
CUT = Fact(subject=LINK, what="unreachable", bearing=Bearing.ACCUSES, at_s=10.0)


def _named(incident: Incident, job: Job = JOB, **state: object) -> str:
    known = State(jobs={"job": job}, incidents={incident.id: incident})
    return named(replace(known, **state), "job")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("incident", "job", "word"),
    [
        (CRASH, JOB, "passing"),
        (replace(CRASH, blame=Blame.USER), JOB, "user"),
        (replace(CRASH, blame=Blame.USER), replace(JOB, phase=Phase.FAILED), "user"),
        (CRASH, replace(JOB, phase=Phase.FAILED), ""),
        (replace(CRASH, evicted=("n0",)), JOB, "node"),
        (replace(CRASH, kind=Kind.NODE_LOST), JOB, "node"),
        (replace(CRASH, kind=Kind.EXECUTOR_LOST, node=None, jobs=()), JOB, "blind"),
        (replace(CRASH, kind=Kind.GOES_ON, faults=0, rung=Rung.NONE), JOB, "pause"),
    ],
)
def test_what_the_last_incident_was_put_down_to(incident: Incident, job: Job, word: str) -> None:
    assert _named(incident, job) == word


@pytest.mark.parametrize(("spoiled_s", "word"), [(11.0, "point"), (9.0, "passing")])
def test_a_restore_point_that_was_given_up_for_it_is_named(spoiled_s: float, word: str) -> None:
    known = State(jobs={"job": JOB}, incidents={1: CRASH})
    assert named(known, "job", spoiled_s=spoiled_s) == word


def test_two_nodes_that_were_parted_are_a_link() -> None:
    assert _named(CRASH, facts=(CUT,)) == "link"


@pytest.mark.parametrize(("evicted", "word"), [(("n0",), "node"), ((), "group")])
def test_whom_the_tests_of_all_nodes_found_is_named(evicted: tuple[str, ...], word: str) -> None:
    held = replace(CRASH, table=Table(chosen=Hypothesis.GROUP), evicted=evicted)
    assert _named(held) == word


def test_what_is_known_of_stores_and_of_the_cluster_parts_nobody() -> None:
    others = (replace(CUT, subject=OfCluster()), replace(CUT, subject=OfStore(url="file:///s")))
    assert _named(CRASH, facts=others) == "passing"


def test_of_a_driver_whose_book_had_no_links_the_pairs_are_read() -> None:
    old = SimpleNamespace(jobs={"job": JOB}, incidents={1: CRASH}, apart=())
    assert named(old, "job") == "passing"  # type: ignore[arg-type]
    old.apart = (SimpleNamespace(nodes=("n0", "n1"), at_s=10.0),)
    assert named(old, "job") == "link"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "word"),
    [(Hypothesis.VERSION, "version"), (Hypothesis.POINT, "point"), (None, "passing")],
)
def test_an_incident_says_what_was_held_to_be_behind_it(
    chosen: Hypothesis | None, word: str
) -> None:
    assert _named(replace(CRASH, jobs=("job",), table=Table(chosen=chosen))) == word


def test_who_has_no_incident_named_nothing() -> None:
    assert named(State(jobs={"job": JOB}), "job") == ""

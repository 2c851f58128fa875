"""The census answers as one that was made anew, whatever nodes it was shown before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.state.census import Census, Overlay, plain
from holdfast.driver.core.state.model import Job, Unfit
from holdfast.driver.core.state.node import (
    Against,
    Connected,
    Free,
    Gone,
    Held,
    Here,
    Node,
    Promised,
    Quarantined,
    Record,
    Returning,
    Source,
    Unknown,
)

NAMES = [f"n{k}" for k in range(12)]
MOST, NOW = 3, 100.0
REST = {Source.REST: Against(why="it failed", until_s=NOW + 1)}
RESTED = {Source.REST: Against(why="it failed", until_s=NOW - 1)}
CORDON = {Source.CORDON: Against(why="closed")}

nodes = st.builds(
    Node,
    name=st.sampled_from(NAMES),
    rack=st.sampled_from(["a", "b"]),
    presence=st.sampled_from([Here(), Here(), Gone(since_s=5.0), Unknown()]),
    link=st.sampled_from([Connected(incarnation="x", address="a"), Node(name="").link]),
    holding=st.sampled_from(
        [Free(), Free(), Promised(job="one"), Held(job="two"), Held(job="job"), Returning()]
    ),
    trust=st.sampled_from([Node(name="").trust] * 3 + [Quarantined(why="bad")]),
    against=st.sampled_from([{}, {}, REST, RESTED, CORDON]),
    record=st.sampled_from([Record(), Record(), Record(evicted_s=50.0)]),
)
steps = st.lists(
    st.one_of(
        nodes, st.sampled_from(["look", "commit", "draft", "discard"]), st.sampled_from(NAMES)
    ),
    max_size=40,
)


@pytest.fixture(scope="module")
def job() -> Job:
    life = Life()
    life.do(e.DriverStarted(term=1))
    life.submit(nodes=1)
    unfit = {name: Unfit(until_s=NOW + 5, why="full") for name in NAMES[:4]}
    return replace(life.job, unfit=unfit)


def answers(census: Census, job: Job) -> object:
    number, why = census.barred(job, NOW, MOST)
    return (
        *(census.known, census.there, sorted(census.away), sorted(census.evicted)),
        *(census.free(NOW), sorted(census.coming(NOW)), number, list(why.items())),
        sorted(census.owners(job, ["one", "two", "job"], NOW).items()),
        list(census.nodes),
    )


@given(steps)
def test_it_answers_as_one_made_anew(job: Job, steps: list[Node | str]) -> None:
    census, committed = Census(), dict[str, Node]()
    draft = Overlay(committed)
    for step in steps:
        if isinstance(step, Node):
            draft.put(step.name, step)
        elif step == "commit":
            committed = plain(draft)
            draft = Overlay(committed)
        elif step == "draft":
            draft = Overlay(draft)
        elif step == "discard":
            draft = Overlay(committed)
        elif step in draft:
            draft = Overlay({name: node for name, node in draft.items() if name != step})
        if step == "look":
            assert answers(census.of(draft), job) == answers(Census().of(plain(draft)), job)
    assert answers(census.of(draft), job) == answers(Census().of(plain(draft)), job)
    assert list(census.nodes) == list(draft)

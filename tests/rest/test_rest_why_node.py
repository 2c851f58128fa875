"""What is told of a node: since when it is so, and the incidents that it was in."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.adapters.rest.telling import why_node
from holdfast.driver.adapters.rest.views import node_view
from holdfast.driver.core import events as e
from holdfast.driver.core.evidence.book import HALF_LIFE_S
from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.fact import Bearing, Fact, OfNode
from holdfast.driver.core.state.fit import Bar
from holdfast.driver.core.state.model import Exam, Incident, Purpose, State
from holdfast.driver.core.state.node import Connected, Here, Node, Quarantined, Record
from holdfast.driver.people.node_words import STATES
from holdfast.driver.ports import Entry
from holdfast.protocol.faults import Blame, Kind

FREE = Node(name="n0", presence=Here(), link=Connected(incarnation="a", address="x"))
AWAY = Node(name="n0", presence=Here())
EVICTED = Node(
    name="n0",
    presence=Here(),
    trust=Quarantined(why="bad", incident=7),
    record=Record(evicted_s=2.0),
)
STRUCK = Fact(subject=OfNode(name="n0"), what=Kind.RANK_CRASHED, bearing=Bearing.CONTEXT, at_s=1.0)
APPEARED = e.NodeAppeared(node="n0")
CONNECTED = e.ExecutorConnected(node="n0", incarnation="a", address="10.0.0.1")
DISCONNECTED = e.ExecutorDisconnected(node="n0", incarnation="a")
RELEASED = e.NodeReleased(node="n0")
TESTED = e.DiagnosticEnded(node="n0", id="trial.3", results=())


NODES = [
    replace(FREE, **{facet: state})
    for facet, states in {
        "presence": [n.Unknown(), n.Gone(since_s=1.0)],
        "holding": [n.Promised(job="a"), n.Held(job="a"), n.Lent(), n.Returning()],
        "trust": [
            n.Suspect(why="a hang", setup=n.ExamSetup(job="a"), exam_s=1.0),
            n.Quarantined(why="bad"),
            n.Quarantined(why="bad", by_person=True),
        ],
        "against": [{source: n.Against(why="so")} for source in n.Source],
    }.items()
    for state in states
]
STATE = {n.Suspect: "suspect", n.Quarantined: "quarantined", n.Trusted: None}


class Written:
    """A journal: event by event, at 14:02:01, 14:02:02 and so on."""

    def __init__(self, happened: Sequence[e.Event]) -> None:
        self._happened = happened

    def entries(self, *, after: int = 0, **_: Any) -> list[Entry]:
        return [] if after else [_entry(*each) for each in enumerate(self._happened, 1)]


def _entry(number: int, event: e.AnyEvent) -> Entry:
    return Entry(
        sequence=number, term=1, now=float(number), at=f"2026-01-01T14:02:{number:02}+00:00",
        policy=1, event=event, why="", effects=(), nodes=("n0",),
    )  # fmt: skip


def details(node: Node, *happened: e.Event, let_go: int = 0) -> list[str]:
    state = State(nodes={"n0": node}, incident_count=let_go)
    return why_node(Written(happened), state, node, now=9.0).details  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "happened", "since"),
    [
        (FREE, (APPEARED, CONNECTED, DISCONNECTED, CONNECTED), 4),
        (FREE, (APPEARED, CONNECTED, RELEASED, TESTED), 4),
        (AWAY, (APPEARED, CONNECTED, DISCONNECTED, CONNECTED, e.DriverStarted(term=2)), 5),
    ],
    ids=["its executor came back", "it passed its exam", "a new driver has not heard of it"],
)
def test_it_is_so_since_nothing_kept_it_from_that(
    node: Node, happened: tuple[e.Event, ...], since: int
) -> None:
    assert details(node, *happened)[0] == f"since 14:02:0{since}"


def test_no_incident_is_denied_that_is_only_kept_no_longer() -> None:
    assert details(EVICTED, let_go=7) == ["incident 7 is kept no longer"]
    assert details(FREE, let_go=7) == ["it is in none of the incidents that are kept"]
    assert details(FREE) == ["it was in no incident"]


def test_a_strike_is_told_with_the_fault_that_it_is_for() -> None:
    struck = replace(FREE, record=Record(facts=(STRUCK,)))
    assert "1 fault put down to it within 7 days: 14:02:01" in details(struck, APPEARED), (
        "its incident is kept no longer"
    )
    fault = Incident(
        id=1, opened=1, kind=Kind.RANK_CRASHED, blame=Blame.UNKNOWN, found_s=1.0, node="n0",
        summary="rank 0 on n0 died of SIGKILL", closed_s=2.0,
    )  # fmt: skip
    state = State(nodes={"n0": struck}, incidents={1: fault})
    told = why_node(Written([APPEARED]), state, struck, now=9.0).details  # type: ignore[arg-type]
    assert "1 fault put down to it within 7 days: rank 0 on n0 died of SIGKILL" in told


def test_a_strike_is_not_told_with_the_fault_of_another_node() -> None:
    """Places were swapped, and the same came on the node that had the place then."""
    both = Incident(
        id=1, opened=1, kind=Kind.RANK_CRASHED, blame=Blame.UNKNOWN, found_s=0.5, node="n1",
        summary="rank 0 on n1 died", nodes=("n1", "n0"), again_s=1.0, latest="rank 0 on n0 died",
    )  # fmt: skip
    struck = replace(FREE, record=Record(facts=(STRUCK,)))
    later = replace(both, again_s=2.0, latest="rank 0 on n1 died again")
    for incident, said in (
        (both, "rank 0 on n0 died"),
        (later, "what followed in incident 1 (rank 0 on n1 died)"),
    ):
        state = State(nodes={"n0": struck}, incidents={1: incident})
        told = why_node(Written([APPEARED]), state, struck, now=9.0).details  # type: ignore[arg-type]
        assert f"1 fault put down to it within 7 days: {said}" in told


def test_a_strike_in_an_incident_of_another_node_is_not_told_as_that_nodes_fault() -> None:
    struck = replace(FREE, record=Record(facts=(STRUCK,)))
    fault = Incident(
        id=1, opened=1, kind=Kind.RANK_CRASHED, blame=Blame.UNKNOWN, found_s=1.0, node="n1",
        nodes=("n0", "n1"), summary="rank 3 on n1 died of SIGKILL", closed_s=2.0,
    )  # fmt: skip
    state = State(nodes={"n0": struck}, incidents={1: fault})
    told = why_node(Written([APPEARED]), state, struck, now=9.0).details  # type: ignore[arg-type]
    said = "what followed in incident 1 (rank 3 on n1 died of SIGKILL)"
    assert f"1 fault put down to it within 7 days: {said}" in told


def test_a_report_that_came_after_a_fault_does_not_hide_it() -> None:
    known = {"opened": 1, "blame": Blame.UNKNOWN, "found_s": 1.0, "node": "n0", "closed_s": 2.0}
    fault = Incident(id=1, kind=Kind.RANK_CRASHED, summary="it died", faults=1, **known)  # type: ignore[arg-type]
    report = Incident(id=2, kind=Kind.LINK_DOWN, summary="it flapped", faults=0, **known)  # type: ignore[arg-type]
    state = State(nodes={"n0": FREE}, incidents={1: fault, 2: report})
    assert why_node(Written([APPEARED]), state, FREE, now=9.0).origin  # type: ignore[arg-type]
    state = State(nodes={"n0": FREE}, incidents={2: report})
    assert not why_node(Written([APPEARED]), state, FREE, now=9.0).origin  # type: ignore[arg-type]


def test_a_strike_of_long_ago_is_told_no_more() -> None:
    """A node that nothing has befallen since kept it for ever, as one of lately."""
    struck = replace(FREE, record=Record(facts=(STRUCK,)))
    state, later = State(nodes={"n0": struck}), STRUCK.at_s + HALF_LIFE_S
    told = why_node(Written([APPEARED]), state, struck, now=later).details  # type: ignore[arg-type]
    assert not [line for line in told if "strike" in line]
    assert [node_view(state, struck, now=now).strikes for now in (later - 1, later)] == [1, 0]


@pytest.mark.parametrize("node", NODES, ids=lambda node: type(node.trust).__name__)
def test_whatever_is_against_a_node_it_is_told(node: Node) -> None:
    """A new state of a node was a KeyError in `why`."""
    state = State(nodes={node.name: node})
    told = why_node(Written([]), state, node, now=9.0)  # type: ignore[arg-type]
    assert told.headline.startswith(node.name)
    assert STATE[type(node.trust)] in (None, node_view(state, node, now=9.0).state)


def test_a_word_that_is_new_in_the_table_is_told_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one who adds a reason not to use a node gives it one."""
    monkeypatch.setitem(STATES, Bar.REST, "at rest")  # type: ignore[misc]
    rests = replace(FREE, against={n.Source.REST: n.Against(why="it failed lately")})
    told = why_node(Written([APPEARED]), State(nodes={"n0": rests}), rests, now=9.0)  # type: ignore[arg-type]
    assert told.headline == "n0 is at rest: it failed lately"


IN_TEST = replace(FREE, holding=n.Held(job="speech"), exam="x")


@pytest.mark.parametrize(
    ("purpose", "suspects", "reason"),
    [
        (
            Purpose.DIAGNOSIS,
            ("n0", "n1"),
            "it is tested: speech is to know whether it is the bad one",
        ),
        (Purpose.DIAGNOSIS, ("n1",), "it helps to test n1"),
        (Purpose.STANDBY, ("n0",), "it is tested: before it may stand in for a node of speech"),
    ],
    ids=["a suspect", "a helper", "a standby"],
)
def test_a_node_that_is_being_tested_says_so_and_for_what(
    purpose: Purpose, suspects: tuple[str, ...], reason: str
) -> None:
    exam = Exam(
        id="x", purpose=purpose, until_s=9.0, orders={"n0": ()}, suspects=suspects, job="speech"
    )
    state = State(nodes={"n0": IN_TEST}, exams={"x": exam})
    view = node_view(state, IN_TEST, now=9.0)
    assert (view.state, view.reason) == ("in test", reason)
    told = why_node(Written([APPEARED]), state, IN_TEST, now=9.0)  # type: ignore[arg-type]
    assert told.headline == f"n0 belongs to speech: {reason}"


def test_a_node_that_is_over_with_its_run_is_not_said_to_be_there() -> None:
    state = State(nodes={"n0": AWAY})
    told = why_node(Written([APPEARED]), state, AWAY, now=9.0, over="has ended")  # type: ignore[arg-type]
    assert told.headline == "n0 has ended"

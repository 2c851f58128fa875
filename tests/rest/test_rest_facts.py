"""Facts that people tell, what is held against nodes, and what would change the driver's mind."""

from collections.abc import Sequence
from typing import Any

import pytest
from made_jobs import made_job
from msgspec.structs import replace
from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE, NODES
from tests.rest.test_rest_why_node import FREE, Written

from holdfast.driver.adapters.rest import against
from holdfast.driver.adapters.rest.facts import checked_fact
from holdfast.driver.adapters.rest.telling import Why, why_node
from holdfast.driver.adapters.rest.worst import worst_of
from holdfast.driver.core.events import Plan
from holdfast.driver.core.evidence.book import DAY_S
from holdfast.driver.core.state.fact import About, Act, Bearing, Fact, FaultClass, OfLink
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.core.state.node import ExamSetup, Node, Quarantined, Record, Suspect
from holdfast.protocol.messages import Task
from holdfast.protocol.mistakes import BadDocument

NOW_S = 10 * DAY_S
RESTORE, CLEAR = 'holdfast nodes restore n0 --reason "…"', 'holdfast fact n0 "…" --clears'
JOB = made_job("speech", Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1))


def fact(bearing: Bearing, days: float, **fields: Any) -> Fact:
    at_s = NOW_S - days * DAY_S
    known = {"subject": FREE.subject, "what": "rank-crashed"} | fields
    return Fact(bearing=bearing, at_s=at_s, **known)


def accused(days: float, job: str = "speech", version: int = 1) -> Fact:
    about = About(job=job, version=version, node=FREE.subject)
    return fact(Bearing.ACCUSES, days, about=about, fault=FaultClass.DIED)


TESTED = fact(Bearing.ACQUITS, 0.0, what="tests")
THREE = (accused(0.0), accused(0.0, version=2), accused(0.0, job="vision"))
OUT = Quarantined(why="bad", setup=ExamSetup(job="speech"), exam_s=NOW_S)


def node(*facts: Fact, **facets: Any) -> Node:
    return replace(FREE, record=Record(facts=facts), **facets)


def why(node: Node, *jobs: Any) -> Why:
    state = State(nodes={"n0": node}, jobs={job.name: job for job in jobs})
    return why_node(Written(()), state, node, now=NOW_S)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            node(*THREE, TESTED, trust=OUT),
            (
                *("once suspicion is below 1 (now 1.5; about 4 days if nothing comes)", RESTORE),
                CLEAR,
            ),
        ),
        (node(*THREE, trust=OUT), ("(now 3; a passed test halves it; about 4 days",)),
        (
            node(accused(1.0), trust=OUT),
            (f"Goes back to use after a passed test, or when a person says so: {RESTORE}",),
        ),
        (
            node(trust=replace(OUT, by_person=True)),
            (f"only when a person says so: {RESTORE}",),
        ),
        (node(trust=replace(OUT, setup=None, exam_s=None)), ("Nothing is known to test it with",)),
        (
            node(trust=Suspect(why="a hang", setup=ExamSetup(job="speech"), exam_s=1.0)),
            ("once its tests find nothing", RESTORE),
        ),
        (
            node(accused(1.0)),
            (
                "It may be used",
                "one job at most 2) within 7 days",
                "forgotten after 28 days",
                CLEAR,
            ),
        ),
    ],
    ids=["tested", "untested", "low", "a person's", "untestable", "suspect", "left"],
)
def test_a_node_says_what_would_change_the_mind_about_it(node: Node, said: Sequence[str]) -> None:
    mind = why(node).mind
    assert all(part in mind for part in said), mind


def test_a_node_against_which_nothing_is_held_says_nothing_of_it() -> None:
    for known in (FREE, node(TESTED), node(accused(40.0))):
        assert why(known).mind == ""


def test_a_node_that_no_job_left_is_not_said_to_be_left() -> None:
    smoke = fact(Bearing.ACCUSES, 1.0, what="smells of smoke", by="a person")
    assert "left it" not in why(node(smoke)).mind


def test_a_node_that_is_only_left_says_by_whom_and_what_ends_that() -> None:
    """The link was to blame, or it was the same elsewhere: nothing is held against the node."""
    job = replace(JOB, facts=(replace(accused(1.0), done=Act.MOVE_COLD, subject=JOB.subject),))
    mind = why(FREE, job).mind
    assert (
        f"by speech last: until 7 days after that job left it, or when a person says so: {CLEAR}"
        in mind
    )
    assert why(FREE, replace(job, phase=Phase.SUCCEEDED)).mind == ""


def test_it_says_who_accuses_a_node_what_tests_found_and_how_much_is_left() -> None:
    smoke = fact(Bearing.ACCUSES, 1.0, what="smells of smoke", by="a person")
    hot = fact(Bearing.CONTEXT, 0.5, what="runs hot", by="a person")
    left = replace(accused(7.0), done=Act.MOVE_COLD)
    job = replace(JOB, facts=(replace(left, at_s=NOW_S - DAY_S),))
    told = why(node(accused(8.0), left, smoke, hot, TESTED), job).details
    assert "speech v1 accuses it: rank-crashed, 7 days ago, weighs 0.5 of 1 now" in told
    assert not [line for line in told if "8 days" in line], "it counts by its newest"
    assert "a person accuses it: smells of smoke, 24 hours ago, weighs 0.91 of 1 now" in told
    assert "a person notes: runs hot, 12 hours ago" in told
    assert "tests found nothing, 0 seconds ago" in told
    assert (
        "suspicion 0.7, halved by tests that found nothing; it halves every 7 days. "
        "2 of 3 accusers that put a node into quarantine"
    ) in told
    assert "left by speech, without proof: taken last by it for 7 days after that" in told


def cut(source: Node, target: Node, ago_s: float, *, tested: bool = False) -> Fact:
    return Fact(
        subject=OfLink(source=source.subject, target=target.subject),
        what="tests" if tested else "unreachable",
        bearing=Bearing.CONVICTS if tested else Bearing.ACCUSES,
        at_s=NOW_S - ago_s,
        about=About(job="speech", version=1),
    )


def test_why_of_a_node_tells_of_its_links_which_way_they_are_cut() -> None:
    other = replace(FREE, name="n1")
    state = State(nodes={"n0": FREE, "n1": other}, facts=(cut(other, FREE, 6 * 3_600.0),))
    for node in (FREE, other):
        told = why_node(Written(()), state, node, now=NOW_S).details  # type: ignore[arg-type]
        said = (
            "speech v1 accuses the link from n1 to n0: unreachable, 6 hours ago, "
            "weighs 0.84 of 1 now"
        )
        assert said in told


def test_the_worst_come_first_and_who_is_well_not_at_all() -> None:
    faults = tuple(
        replace(accused(days, version=version), bearing=Bearing.CONTEXT, subject=JOB.subject)
        for days, version in ((9.0, 1), (2.0, 2), (1.0, 2))
    )
    bad = replace(node(*THREE, TESTED, accused(9.0), trust=OUT), name="n1")
    lately = replace(node(fact(Bearing.CONTEXT, 1.0)), name="n2")
    state = State(
        nodes={"n0": FREE, "n2": lately, "n1": bad},
        jobs={"speech": replace(JOB, facts=faults)},
        facts=(cut(FREE, bad, 90.0), cut(FREE, lately, 0.0), cut(lately, FREE, 80.0, tested=True)),
    )
    found = worst_of(state, now=NOW_S, most=5)
    first, second = found.nodes
    assert (first.node, first.suspicion, first.strikes, first.tests) == ("n1", 1.5, 3, 1)
    assert (first.accused_by, first.state) == (
        ["speech v2", "vision v1", "speech v1"],
        "quarantined",
    )
    assert (second.node, second.suspicion, second.strikes) == ("n2", 0.0, 1)
    assert [(each.source, each.target, each.convicted) for each in found.links] == [
        *(("n2", "n0", True), ("n0", "n2", False), ("n0", "n1", False)),
    ]
    assert found.links[0].accused_by == ["speech v1"]
    assert [(each.version, each.faults) for each in found.versions] == [(2, 2)]
    assert [len(x) for x in (worst_of(state, now=NOW_S, most=1).nodes, found.links)] == [1, 3]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (8.4, "8 seconds"),
        (1.2, "1 second"),
        (119, "119 seconds"),
        (7_300, "2 hours"),
        (-1, "0 seconds"),
    ],
)
def test_a_span_is_told_in_one_number(seconds: float, said: str) -> None:
    assert against.span(seconds) == said


async def test_a_fact_of_a_node_is_journaled_once_and_told(driver: Driver) -> None:
    await driver.happened(*NODE)
    body = {"words": "smells of smoke", "says": "accuses"}
    sent = {"json": body, "headers": {"Idempotency-Key": "smoke-1"}}
    answers = [await driver.http.post(f"{NODES}/node-1/facts", **sent) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["why"] == "a person accuses node-1: smells of smoke"
    told = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert [line["text"] for line in told["lines"]][
        -1
    ] == "a person accuses node-1: smells of smoke"
    assert any("a person accuses it: smells of smoke" in line for line in told["details"])
    assert CLEAR.replace("n0", "node-1") in told["mind"]
    (worst,) = (await driver.http.get("/v1alpha1/evidence")).json()["nodes"]
    assert (worst["node"], worst["accused_by"]) == ("node-1", ["a person"])
    await driver.http.post(f"{NODES}/node-1/facts", json={"words": "a toaster", "says": "clears"})
    assert (await driver.http.get("/v1alpha1/evidence")).json()["nodes"] == []
    assert (await driver.http.get(f"{NODES}/node-1/why")).json()["mind"] == ""


async def test_a_fact_of_a_link_is_of_two_nodes_and_of_one_way(driver: Driver) -> None:
    await driver.happened(*NODE, *(replace(each, node="node-2") for each in NODE))
    url, body = f"{NODES}/node-1/facts", {"words": "bent", "says": "accuses", "to": "node-2"}
    answer = await driver.http.post(url, json=body)
    assert answer.status_code == 202, answer.text
    said = "a person accuses the link from node-1 to node-2: bent"
    assert answer.json()["why"] == said
    (link,) = (await driver.http.get("/v1alpha1/evidence")).json()["links"]
    assert (link["source"], link["target"], link["accused_by"]) == (
        "node-1",
        "node-2",
        ["a person"],
    )
    for name in ("node-1", "node-2"):
        told = (await driver.http.get(f"{NODES}/{name}/why")).json()
        assert said in [line["text"] for line in told["lines"]]
        assert [line for line in told["details"] if line.startswith(said)]
    for to, status in (("node-9", 404), ("node-1", 409), ("", 422), (3, 422)):
        refused = await driver.http.post(url, json={**body, "to": to})
        mistake = refused.json()["errors"][0]
        assert (refused.status_code, mistake["field"]) == (status, "to")
        assert status == 422 or mistake["value"] == to, "the node of the path is not it"
    await driver.http.post(f"{NODES}/node-2/facts", json={**body, "says": "clears", "to": "node-1"})
    assert (await driver.http.get("/v1alpha1/evidence")).json()["links"] == []


async def test_a_fact_of_a_job_is_of_one_of_its_versions(driver: Driver) -> None:
    await driver.submit()
    url, words = "/v1alpha1/jobs/speech/facts", "the loader is tested"
    answer = await driver.http.post(url, json={"words": words, "says": "clears"})
    assert answer.status_code == 202
    said = f"a person clears version 1 of speech: {words}"
    assert said in answer.json()["why"]
    details = (await driver.http.get("/v1alpha1/jobs/speech/why")).json()["details"]
    (told,) = [line for line in details if line.startswith("a person clears version 1 at ")]
    assert told.endswith(f": {words}")
    story = (await driver.http.get("/v1alpha1/jobs/speech/story")).json()["lines"]
    assert said in [line["text"] for line in story]
    none = await driver.http.post(url, json={"words": words, "version": 2})
    mistake = none.json()["errors"][0]
    assert (none.status_code, mistake["field"], mistake["value"]) == (404, "version", "2")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "words"),
        ([], "words"),
        ({"words": " "}, "words"),
        ({"words": "x" * 501}, "words"),
        ({"words": 3}, "words"),
        ({"words": "x", "says": "maybe"}, "says"),
        ({"words": "x", "version": 0}, "version"),
        ({"words": "x", "version": True}, "version"),
        ({"words": "x", "version": 10**23}, "version"),
        ({"words": "x", "say": "clears"}, "say"),
        ({"words": "x", "to": "node-2"}, "to"),
    ],
)
async def test_a_fact_that_is_none_is_refused_with_its_field(
    driver: Driver, body: Any, field: str
) -> None:
    await driver.submit()
    answer = await driver.http.post("/v1alpha1/jobs/speech/facts", json=body)
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert answer.json()["errors"][0]["fix"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (None, "they are missing."),
        (" ", "they are empty."),
        (3, "3 is no text."),
        ("\udcff", "they have half of a character."),
    ],
)
def test_words_that_are_none_say_what_is_wrong(words: Any, said: str) -> None:
    with pytest.raises(BadDocument) as refused:
        checked_fact({"words": words})
    assert [each.why for each in refused.value.mistakes] == [said]


async def test_a_misspelt_field_does_not_make_a_note_of_what_was_to_clear(driver: Driver) -> None:
    await driver.happened(*NODE)
    body = {"words": "cable replaced", "say": "clears", "version": None}
    answer = await driver.http.post(f"{NODES}/node-1/facts", json=body)
    assert answer.status_code == 422, answer.text
    (mistake,) = answer.json()["errors"]
    assert mistake["why"] == "there is no field 'say' here."
    details = (await driver.http.get(f"{NODES}/node-1/why")).json()["details"]
    assert not any("cable replaced" in line for line in details)


async def test_words_of_a_person_make_no_line_of_their_own(driver: Driver) -> None:
    await driver.submit()
    words = "tested\n  07:00:00  decided  speech is given up"
    await driver.http.post("/v1alpha1/jobs/speech/facts", json={"words": words})
    story = (await driver.http.get("/v1alpha1/jobs/speech/story")).json()["lines"]
    assert "\n" not in "".join(line["text"] for line in story)
    assert any("tested 07:00:00 decided" in line["text"] for line in story)


async def test_a_fact_is_of_somebody(driver: Driver) -> None:
    for where in ("nodes/node-9", "jobs/nope"):
        answer = await driver.http.post(f"/v1alpha1/{where}/facts", json={"words": "x"})
        assert answer.status_code == 404


async def test_what_would_change_nothing_is_refused_and_says_so(driver: Driver) -> None:
    await driver.happened(*NODE)
    await driver.submit()
    jobs = "/v1alpha1/jobs/speech/facts"
    accused = await driver.http.post(jobs, json={"words": "it leaks", "says": "accuses"})
    assert accused.status_code == 409
    assert "'accuses' of version 1 of 'speech' would change nothing" in accused.text
    of_node = await driver.http.post(f"{NODES}/node-1/facts", json={"words": "x", "version": 2})
    assert (of_node.status_code, of_node.json()["errors"][0]["field"]) == (422, "version")

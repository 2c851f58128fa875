"""Pages as they are made, of made-up answers: what is said first, what it costs, what is quoted."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.adapters.rest.examples import ANSWERS
from holdfast.driver.core.state.model import FINISHED as PHASES
from holdfast.page import pages, spent, words
from holdfast.page.answers import answers
from holdfast.page.costs import of_eviction, of_fact, of_fact_of_version, of_stop
from holdfast.page.logs import SHOWN_LINES, first_error, pane
from holdfast.page.pages import Frame, Log, More
from holdfast.page.stories import of_incident
from holdfast.page.waterfall import MEANS, waterfall
from holdfast.telemetry.analysis.alike_stacks import alike

JOB: dict[str, Any] = ANSWERS["GET /jobs/{job}"]
INCIDENT: dict[str, Any] = ANSWERS["GET /incidents/{number}"]
NODE: dict[str, Any] = ANSWERS["GET /nodes/{node}"]
TIME: dict[str, Any] = ANSWERS["GET /jobs/{job}/goodput"]
HOOK: dict[str, Any] = ANSWERS["GET /webhooks"]["items"][0]
FLEET: dict[str, Any] = ANSWERS["GET /goodput"]
CURVES: dict[str, Any] = ANSWERS["GET /jobs/{job}/curves"]
WHY: dict[str, Any] = ANSWERS["GET /jobs/{job}/why"]
RUNNING = {
    **JOB,
    "phase": "Running",
    "waiting": "",
    "parked": "",
    "step": 1_234,
    "again_from": None,
    "step_s": 0.2,
    "best_step_s": 0.1,
    "tokens_per_s": 5_000.0,
    "since_s": 65.0,
}
LIVE = Frame(live=True, sequence=7, token="t")


def test_the_phases_that_are_over_are_those_of_the_core() -> None:
    assert {phase.value for phase in PHASES} == words.FINISHED


def first(**changes: Any) -> str:
    return answers({**RUNNING, **changes}, [], WHY)[0].text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Yes: it is at step 1,234."),
        ({"step": None}, "It has been running for 65 s; no step was seen yet."),
        ({"again_from": 1_200}, "It does again what was lost, from step 1,200 to 1,234."),
        ({"phase": "Restoring"}, "Not now: it has been Restoring for 65 s."),
        ({"waiting": "it needs 2 nodes"}, "No: it needs 2 nodes."),
        ({"parked": "a defect of Holdfast"}, "No: a defect of Holdfast."),
        (
            {"state": "lost its driver"},
            "No: it lost its driver; it had been Running for 65 s.",
        ),
        (
            {"phase": "Failed", "age_s": 3.0, "failure": {"reason": "It raised.", "traceback": ""}},
            "It is over: Failed after 3.0 s. It raised.",
        ),
    ],
)
def test_whether_it_makes_progress_comes_first(changes: dict[str, Any], said: str) -> None:
    assert first(**changes) == said


def test_who_has_lost_its_driver_is_not_told_of_an_older_stop() -> None:
    lost = {**RUNNING, "state": "lost its driver", "stored_step": 40}
    told = {each.question: each.text for each in answers(lost, [INCIDENT], WHY)}
    assert told["Why did it last stop?"] == "It lost its driver, and nothing tells why."
    assert told["What can be done?"].startswith("Start it again, with --begin-from")


def test_speed_is_told_against_its_own_best_and_a_stop_with_its_time() -> None:
    told = {each.question: each for each in answers(RUNNING, [INCIDENT], WHY)}
    pace = "0.2 s a step, 50% of the pace of its own best, 0.1 s, 5,000 tokens/s"
    assert told["How fast?"].text == pace
    stopped = told["Why did it last stop?"]
    assert (stopped.incident, INCIDENT["latest"] in stopped.text) == (INCIDENT["number"], True)
    assert " UTC: " in stopped.text
    (first, *_) = [line["at"] for line in WHY["lines"] if line["incident"] == INCIDENT["number"]]
    stood = {**INCIDENT, "stalled_s": 65.0}
    since = datetime.fromisoformat(first) - timedelta(seconds=65)
    text = answers(RUNNING, [stood], WHY)[3].text
    assert text.startswith(f"since {since:%H:%M:%S} UTC, found at {first[11:19]}: ")
    at_once = answers(RUNNING, [{**INCIDENT, "stalled_s": 0.0}], WHY)[3].text
    assert at_once.startswith(f"at {first[11:19]} UTC: ")
    best = {**RUNNING, "step_s": 0.1}
    assert "as fast as ever" in answers(best, [], WHY)[1].text


def test_what_an_eviction_costs_depends_on_who_could_take_over() -> None:
    node = {**NODE, "ranks": [0, 1], "standby": False}
    others = [{"name": "b", "state": "free"}, {"name": "c", "state": "free"}]
    job = {**RUNNING, "standbys": ["s"]}
    assert of_eviction(node, None, others, [])[0] == "It has no job: nothing stops."
    assert "Its standby s takes over." in of_eviction(node, job, others, [INCIDENT])
    alone = {**job, "standbys": []}
    assert "It has no standby; b is free, as are 1 more." in of_eviction(node, alone, others, [])
    assert "No other node is free: the job waits until one is." in of_eviction(node, alone, [], [])
    assert "goes on" in of_eviction({**node, "standby": True}, job, [], [])[0]
    assert any("cannot be resumed" in each for each in of_stop(job))
    over = {**job, "phase": "Failed"}
    assert of_eviction(node, over, others, [])[0] == "It has no job: nothing stops."


def test_what_it_costs_is_told_of_faults_and_never_less_than_nothing() -> None:
    node, job = {**NODE, "ranks": [0], "standby": False}, {**RUNNING, "standbys": []}
    took = [{**INCIDENT, "faults": faults, "down_s": down_s} for faults, down_s in ((1, 7), (0, 3))]
    assert "Its last recovery took 7.0 s." in of_eviction(node, job, [], took)
    ahead = {**job, "step": 10, "stored_step": 20, "step_s": 1.0}
    assert "At worst it goes back from step 10 to 20 in its store." in of_eviction(
        node, ahead, [], []
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"says": "context", "to": "b"}, "It is for people alone"),
        ({"says": "accuses", "to": "b"}, "a and b are kept apart for a day."),
        ({"says": "clears", "to": "b"}, "What is held against this link counts no more."),
        (
            {"says": "accuses"},
            "You are one accuser of a; three put it into quarantine once a fault stands out there.",
        ),
        ({"says": "clears", "to": ""}, "What is held against a counts no more."),
    ],
)
def test_what_a_fact_means_is_told_before(given: dict[str, str], said: str) -> None:
    assert of_fact("a", given)[0].startswith(said)


@pytest.mark.parametrize(
    ("says", "said"),
    [("clears", "It closes v2"), ("accuses", "It opens v2"), ("context", "It is for people")],
)
def test_and_of_a_version(says: str, said: str) -> None:
    assert of_fact_of_version("v2", says)[0].startswith(said)


def test_a_waterfall_is_whole_and_each_of_its_stages_is_known() -> None:
    bars = waterfall(INCIDENT["stages_s"])
    assert sum(bar.share for bar in bars) == pytest.approx(1)
    assert {bar.stage for bar in bars} <= MEANS.keys()
    assert waterfall({}) == []
    assert [bar.start for bar in waterfall({"stop": 0.0})] == [0.0]


def test_of_a_story_what_lies_between_the_first_and_the_last_line_is_of_an_incident() -> None:
    lines = [
        {"incident": each, "text": str(place)} for place, each in enumerate((None, 1, None, 1))
    ]
    assert [line["text"] for line in of_incident(lines, 1)] == ["1", "2", "3"]
    assert of_incident(lines, 2) == []


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "ValueError: no",
        "2026-11-26 ERROR loader failed",
        "n1:4:4 [0] NCCL WARN Call to ibv_reg_mr failed",
        "Segmentation fault (core dumped)",
    ],
)
def test_the_first_error_of_a_log_is_found(line: str) -> None:
    assert first_error(["loss 0.1 error_rate 0.2", "no errors", line, "KeyError: later"]) == 2


def test_of_a_long_log_the_end_is_shown_and_the_error_before_it_named() -> None:
    data = b"ValueError: x\n" + b"more\n" * 500
    shown = pane(data, whole=True)
    assert (len(shown.lines), shown.cut) == (SHOWN_LINES, True)
    assert shown.error is not None
    assert shown.error.text == "ValueError: x"
    assert pane(b"half of a line\nwhole\n", whole=False).lines[0].text == "whole"


SIGNS = st.text(alphabet="<>&\"'/\\{}%`\x1b\u202ea ", min_size=1, max_size=12)


@given(quoted=SIGNS)
def test_whatever_is_quoted_stays_text(quoted: str) -> None:
    mark = f"<blink>{quoted}</blink>"
    job = {**RUNNING, "name": mark, "why": mark, "labels": {mark: mark}, "store_url": mark}
    incident = {**INCIDENT, "summary": mark, "latest": mark, "stacks": {0: mark}, "node": mark}
    line = {**WHY["lines"][0], "text": mark, "source": mark, "verdict": mark}
    why = {**WHY, "headline": mark, "details": [mark], "exception": mark, "lines": [line]}
    log = Log(0, "stderr", 1, pane(mark.encode(errors="replace"), whole=True))
    node = {**NODE, "name": mark, "reason": mark, "rack": mark, "job": mark}
    marked = {"incident": 1, "at_s": 1.0, "until_s": None, "says": mark}
    shown = {"ranks": [0], "text": mark}
    stood = {"attempt": 1, "stacks": [shown], "missing": [{"rank": 1, "why": mark}]}
    brake = {"on": True, "why": mark, "since_s": 0.0, "dry_run": False}
    hook = {**HOOK, "name": mark, "trouble": mark}
    lost = {**FLEET["by_node"][0], "name": mark}
    made = [
        pages.job(LIVE, job, [incident], why, More(TIME, log, {**CURVES, "marks": [marked]})),
        pages.incident(LIVE, mark, incident, {"lines": [line]}, alike({0: mark})),
        pages.stacks_of(LIVE, mark, mark, stood),
        pages.telling(LIVE, mark, {"words": mark, "says": "accuses", "to": mark}, "/nodes/x"),
        pages.jobs(LIVE, [job], pages.Fleet([node], brake)),
        pages.node(LIVE, node, {**why, "mind": mark}, mark),
        pages.eviction(LIVE, node, job, [node], [incident], "/nodes/x"),
        pages.problem(mark, mark, fix=mark),
        pages.webhooks(LIVE, [hook], mark),
        pages.goodput(LIVE, {**FLEET, "by_kind": [lost], "by_node": [lost]}, 30),
    ]
    for html in made:
        assert "<blink>" not in html
        assert "&lt;blink&gt;" in html
        assert "\x1b" not in html
        assert "\u202e" not in html


def test_a_page_of_12288_ranks_is_made_in_no_time_that_a_reader_sees() -> None:
    places = [
        {"node": f"node-{n}", "ranks": list(range(8 * n, 8 * n + 8)), "pids": {}, "connected": True}
        for n in range(1_536)
    ]
    job = {**RUNNING, "places": places, "ranks": 12_288}
    log = Log(0, "stderr", 1, pane(b"", whole=True))
    html = pages.job(LIVE, job, [INCIDENT], WHY, More(TIME, log, CURVES))
    assert html.count('class="cell') == 1_536 + len(job["standbys"])
    assert len(html) < 400_000


def test_every_template_and_file_of_the_page_is_installed_with_it() -> None:
    told = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '"holdfast.page" = ["templates/*", "static/**/*"]' in told


def test_where_the_time_of_a_job_went_is_told_with_what_each_bucket_is() -> None:
    log = Log(0, "stderr", 1, pane(b"", whole=True))
    more = More({**TIME, "not_known": ["of one"]}, log, CURVES)
    html = pages.job(LIVE, RUNNING, [INCIDENT], WHY, more)
    told = html[html.index("Where its time went") :]
    assert f"ETTR at least {TIME['ettr']:.3f}" in told
    assert TIME["buckets_s"].keys() <= spent.WORDS.keys()
    for bucket, took_s in TIME["buckets_s"].items():
        assert f"{bucket}<span" in told
        assert words.duration(took_s) in told
    assert "Not known: of one." in told
    none = {**TIME, "buckets_s": {}, "ettr": None}
    assert "Where its time went" not in pages.job(LIVE, RUNNING, [], WHY, more._replace(time=none))
    (cost,) = TIME["incidents"]
    listed = told[told.index('id="incidents"') :]
    assert f"cost {words.duration(cost['lost_s'])}: " in listed
    assert "3.5 s first step" in listed


def test_where_the_time_of_all_jobs_went_is_told_by_kind_and_by_node() -> None:
    html = pages.goodput(LIVE, FLEET, 30)
    assert 'aria-current="true">a month</a>' in html
    assert f"1 job in 30 days: {spent.headline(FLEET)}" in html
    by_kind, by_node = html[html.index('id="by-kind"') :].split('id="by-node"')
    for told in FLEET["by_kind"]:
        assert f"{told['name']}</th>" in by_kind
        assert spent.share(told["lost_s"], FLEET["lost_s"]) in by_kind
    assert '<a href="/nodes/node-4">node-4</a>' in by_node
    assert "25.4 %" in by_node
    nothing = {**FLEET, "buckets_s": {}, "ettr": None, "by_kind": [], "by_node": []}
    assert pages.goodput(LIVE, nothing, 7).count("<p>None.</p>") == 2

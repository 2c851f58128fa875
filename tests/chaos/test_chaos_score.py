"""Scores are made of facts; scenarios can be chosen and are complete."""

import itertools
import json
from datetime import UTC, datetime

import msgspec
import pytest

from holdfast.lab.chaos import scenarios
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.lost import steps_lost
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.chaos.scenarios import SCENARIOS, chosen
from holdfast.lab.chaos.score import Facts, Score, score
from holdfast.protocol.paths import RunPaths

RIGHT = {
    "number": 1,
    "rung": 1,
    "kind": "rank-crashed",
    "blame": "infrastructure",
    "node": "node-1",
    "rank": 1,
    "evicted": [],
    "found_s": 10.0,
    "steps_lost": 1,
    "evidence": [],
    "recovered_s": 0.5,
}
EXPECTED = Expected(names_rank=True)
FAULT_AT_S = 1_000.0


def line(after_s: float, text: str, *, incident: int | None = 1, seen=False, verdict=""):
    at = datetime.fromtimestamp(FAULT_AT_S + after_s, UTC).isoformat()
    return {"at": at, "text": text, "incident": incident, "seen": seen, "verdict": verdict}


STORY = [
    line(-5.0, "the job runs", incident=None),
    line(0.05, "rank 1 died", seen=True),
    line(0.1, "restart the ranks on the same nodes"),
    line(0.6, "completed step 23, the furthest so far", seen=True),
    line(9.0, "the job is done", incident=None, seen=True),
]


def scored(
    expected: Expected = EXPECTED, *incidents: dict[str, object], **changes: object
) -> Score:
    facts = Facts(
        fault="f",
        expected=expected,
        done=Done(said="", node="node-1", rank=1, at_s=FAULT_AT_S),
        phase="Succeeded",
        incidents=list(incidents),
        story=STORY,
        steps_lost=1,
        loss_equal_bitwise=True,
    )
    return score(msgspec.structs.replace(facts, **changes))


def test_a_fault_that_is_found_named_and_cured_passes_with_its_figures():
    assert scored(EXPECTED, RIGHT) == Score(
        fault="f",
        passed=True,
        detected_s=0.1,
        blame="rank-crashed node-1 rank 1 (infrastructure)",
        blame_right=True,
        innocent_evicted=0,
        down_s=0.6,
        steps_lost=1,
        steps_lost_told=1,
        loss_equal_bitwise=True,
        node="node-1",
        rank=1,
        role="another rank",
        classed="infrastructure",
        named="victim",
    )


@pytest.mark.parametrize(
    ("why", "change"),
    [
        ("the rank that complains is named", {"rank": 0}),
        ("another node is named", {"node": "node-2"}),
        ("the user is blamed", {"blame": "user"}),
        ("a healthy node is evicted", {"evicted": ["node-2"]}),
        ("a node is evicted for what a restart cures", {"evicted": ["node-1"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_fails_when(why, change):
    assert not scored(EXPECTED, RIGHT | change).passed


def test_it_fails_when_the_job_does_not_end_as_it_must():
    assert not scored(EXPECTED, RIGHT, phase="Failed").passed


def test_it_fails_when_the_losses_differ_and_not_when_they_are_not_compared():
    assert not scored(EXPECTED, RIGHT, loss_equal_bitwise=False).passed
    assert scored(EXPECTED, RIGHT, loss_equal_bitwise=None).passed


def test_it_fails_when_nothing_was_noticed():
    missed = scored(EXPECTED)
    assert not missed.passed
    assert (missed.detected_s, missed.down_s) == (None, None)


def test_it_fails_when_a_fault_is_seen_where_there_is_none():
    quiet = Expected(incident=False)
    assert scored(quiet, steps_lost=0).passed
    assert not scored(quiet, RIGHT).passed


def test_a_node_that_must_go_has_to_be_evicted():
    must = Expected(may_evict=True, must_evict=True)
    assert scored(must, RIGHT | {"evicted": ["node-1"]}).passed
    assert not scored(must, RIGHT).passed
    assert scored(must, RIGHT | {"evicted": ["node-1", "node-2"]}).innocent_evicted == 1


def test_the_victim_of_a_second_fault_is_no_innocent():
    done = Done(said="", node="node-1", rank=1, also=("node-2",), at_s=FAULT_AT_S)
    may = Expected(may_evict=True)
    assert scored(may, RIGHT | {"evicted": ["node-2"]}, done=done).passed
    assert not scored(may, RIGHT | {"evicted": ["node-3"]}, done=done).passed


def test_of_nodes_that_are_lost_at_once_in_one_incident_any_may_be_named():
    done = Done(said="", node="node-1", also=("node-2",), at_s=FAULT_AT_S)
    other = RIGHT | {"node": "node-2", "rank": None}
    assert scored(Expected(may_evict=True, incidents=1), other, done=done).blame_right
    assert not scored(Expected(may_evict=True, incidents=2), other, done=done).blame_right


def test_down_time_reaches_to_the_end_of_the_last_recovery():
    later = [line(2.1, "restart again", incident=2), line(3.1, "completed step 30", incident=2)]
    twice = scored(EXPECTED, RIGHT, RIGHT | {"number": 2}, steps_lost=2, story=STORY + later)
    assert (twice.detected_s, twice.down_s) == (0.1, 3.1)


def test_there_is_no_down_time_where_the_last_recovery_never_trained():
    assert scored(EXPECTED, RIGHT | {"recovered_s": None}).down_s is None


def test_it_fails_when_too_many_steps_are_lost():
    assert scored(EXPECTED, RIGHT, steps_lost=2).passed
    assert not scored(EXPECTED, RIGHT, steps_lost=3).passed


def test_it_fails_when_the_driver_tells_of_other_losses_than_the_ranks():
    assert not scored(Expected(most_steps_lost=9), RIGHT, steps_lost=3).passed


def test_the_part_that_is_bad_has_to_be_in_the_evidence():
    bad_link = Expected(part="link")
    said = {"evidence": [{"source": "diagnosis", "text": "1-2: 11.2 MB/s -> node-1's link"}]}
    verdict = "node-1: its link failed the tests"
    named = line(4.0, "allreduce with node-2: 11.2 MB/s", seen=True, verdict=verdict)
    found = scored(bad_link, RIGHT | said, story=[*STORY, named])
    assert found.passed
    assert found.detected_s == 4.0, "the first death is not what had to be found"
    assert not scored(bad_link, RIGHT).passed
    assert scored(bad_link, RIGHT, RIGHT | said | {"number": 2}, steps_lost=2).passed, "by then"


def test_steps_lost_are_those_that_all_had_completed_and_that_were_trained_again(tmp_path):
    def left(attempt: int, rank: int, steps: range, rest: str = "") -> None:
        folder = RunPaths(tmp_path).rank("job", attempt, rank)
        folder.mkdir(parents=True)
        lines = "".join(f'{{"step": {step}, "loss": 1.0}}\n' for step in steps)
        (folder / "metrics.jsonl").write_text(lines + rest)

    assert steps_lost(RunPaths(tmp_path), "job") == 0
    left(1, 0, range(1, 19))
    left(1, 2, range(1, 18), rest='{"step": 18, "lo')
    left(2, 0, range(11, 13))
    left(2, 2, range(11, 13))
    left(3, 0, range(18, 31))
    left(3, 2, range(18, 31))
    assert steps_lost(RunPaths(tmp_path), "job") == 7, "17 were completed, 11 to 17 done again"


TOLD = RIGHT | {"kind": "counters", "rung": 0, "rank": None, "recovered_s": None}
ONLY_TOLD = Expected(incident=False, reports="counters")


@pytest.mark.parametrize(
    ("expected", "incidents", "passed", "classed", "named"),
    [
        pytest.param(ONLY_TOLD, [TOLD], True, "report", "victim", id="told, nothing done"),
        pytest.param(ONLY_TOLD, [], False, "", "", id="not told"),
        pytest.param(ONLY_TOLD, [TOLD | {"node": "node-2"}], False, "", "", id="of another"),
        pytest.param(ONLY_TOLD, [TOLD, RIGHT], False, "infrastructure", "victim", id="acted on"),
        pytest.param(
            Expected(kind="kernel-fault"), [RIGHT], False, "infrastructure", "victim", id="kind"
        ),
        pytest.param(
            Expected(incident=False, untold=("counters",)), [TOLD], False, "", "", id="untold"
        ),
        pytest.param(
            Expected(may_be_quiet=True, incidents=1), [], True, "", "", id="nothing, which may be"
        ),
        pytest.param(
            Expected(may_be_quiet=True, incidents=1),
            [RIGHT] * 2,
            False,
            "infrastructure",
            "victim",
            id="more often than it may be",
        ),
        pytest.param(
            EXPECTED,
            [RIGHT | {"node": None, "rank": None}],
            False,
            "infrastructure",
            "nobody",
            id="nobody",
        ),
        pytest.param(
            Expected(names_node=False, names_hurt=True),
            [RIGHT | {"node": "node-9"}],
            False,
            "infrastructure",
            "another",
            id="a node to which nothing was done",
        ),
        pytest.param(
            EXPECTED, [RIGHT | {"rank": 3}], False, "infrastructure", "another", id="rank"
        ),
    ],
)
def test_what_is_only_told_and_who_is_named(expected, incidents, passed, classed, named):
    found = scored(expected, *incidents, steps_lost=len([e for e in incidents if e["rung"]]))
    assert (found.passed, found.classed, found.named) == (passed, classed, named)


def test_the_victim_has_a_role():
    done = Done(said="", node="node-1", at_s=FAULT_AT_S, step=21)
    assert scored(EXPECTED, RIGHT, done=done, meets="node-1").role == "the store's node"
    assert scored(EXPECTED, RIGHT, done=done, meets="node-2").role == "another node"
    assert scored(EXPECTED, RIGHT, done=done).at_step == 21
    first = msgspec.structs.replace(done, rank=0)
    assert scored(EXPECTED, RIGHT, done=first, meets="node-1").role == "rank 0"
    assert scored(EXPECTED, done=Done(said="", at_s=FAULT_AT_S)).role == ""


def test_the_line_has_exactly_the_promised_fields():
    assert (
        list(json.loads(msgspec.json.encode(scored(EXPECTED, RIGHT))))
        == (
            "fault passed detected_s blame blame_right innocent_evicted down_s steps_lost "
            "steps_lost_told loss_equal_bitwise node rank role classed named"
        ).split()
    )


def test_names_are_unique_and_every_promised_fault_has_a_scenario():
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert {1, 2, 3, 4, 7, 8, 14, 24, 25, 35, 41} <= {scenario.number for scenario in SCENARIOS}
    hangs = ["rank-stopped", "rank-spins", "rank-on-pipe"]
    pauses = ["evaluation-works", "evaluation-idles"]
    assert [scenario.name for scenario in chosen(["4"], SCENARIOS)][:5] == hangs + pauses
    assert [*chosen(["4"], SCENARIOS)[5:]] == chosen(["pauses"], SCENARIOS)


def test_faults_are_chosen_by_name_by_number_or_all():
    assert [each.name for each in chosen(["node-lost", "rank-killed"], SCENARIOS)] == [
        "rank-killed",
        "node-lost",
    ]
    faults = [each for each in SCENARIOS if each.family not in scenarios.HARMLESS]
    assert chosen(["all"], SCENARIOS) == faults
    assert chosen(["all", "quiet", "pauses"], SCENARIOS) == list(SCENARIOS)


def test_an_unknown_fault_is_refused_with_those_that_are_near():
    with pytest.raises(scenarios.UnknownFault, match=r"^'meteor' is no fault\.$"):
        chosen(["meteor", "rank-killed"], SCENARIOS)
    with pytest.raises(
        scenarios.UnknownFault, match=r"^'node-lst' is no fault\. Nearest: node-lost"
    ):
        scenarios.named("node-lst")


def test_no_injector_can_ask_the_code_under_test_to_break_itself():
    """An injector may look through the driver's public face, and touch nothing with it."""
    import ast
    from pathlib import Path

    folder = Path(scenarios.__file__).parent / "injectors"
    trees = [ast.parse(path.read_text()) for path in folder.glob("*.py")]
    nodes = list(itertools.chain.from_iterable(ast.walk(tree) for tree in trees))
    calls = {
        node.func.attr
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    modules = {
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert not {"ask", "submit", "story"} & calls
    forbidden = ("holdfast.driver", "holdfast.executor", "holdfast.daemon", "holdfast.telemetry")
    readers = {
        f"holdfast.driver.adapters.kubernetes.{pure}"
        for pure in ("facts", "names", "paths", "pods")
    }
    assert not [module for module in modules - readers if module.startswith(forbidden)]


def test_a_report_on_which_nothing_was_done_is_no_answer_to_the_fault():
    report = RIGHT | {"number": 2, "rung": 0, "node": "node-9", "recovered_s": None}
    assert scored(EXPECTED, RIGHT, report) == scored(EXPECTED, RIGHT)
    assert scored(Expected(incident=False), report, steps_lost=0).passed
    assert not scored(EXPECTED, report).passed

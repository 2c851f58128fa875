"""The demo's verdict, and its picture, from made facts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.chaos.score import answering
from holdfast.lab.demo.job import training_job
from holdfast.lab.demo.summary import Facts, summarise, too_late
from holdfast.lab.demo.view import result
from holdfast.lab.losses import Losses

LOSSES = Losses(by_step={1: (5.5).hex(), 2: (4.25).hex()})
INCIDENT: dict[str, Any] = {
    "rung": 2,
    "found_s": 100.0,
    "evicted": ["node-4"],
    "recovered_s": 1.5,
    "steps_lost": 1,
    "step": 20,
}
REPORTED = INCIDENT | {"rung": 0, "evicted": [], "recovered_s": None, "steps_lost": None}
FACTS = Facts(
    fault="node-lost",
    nodes=4,
    ranks=8,
    kind="root",
    done=Done(said="node-4 is lost", node="node-4"),
    expected=Expected(may_evict=True),
    delayed_s=1.25,
    incidents=[INCIDENT],
    job={"phase": "Succeeded", "why": "every rank ended with exit code 0"},
    losses=LOSSES,
    reference=LOSSES,
    leftovers=0,
)


def test_all_well_is_passed_with_seconds_counted_from_the_fault() -> None:
    summary = summarise(FACTS)
    assert summary.verdict == "passed"
    assert (summary.detected_s, summary.recovered_s, summary.steps_lost) == (1.25, 2.75, 1)
    assert (summary.evicted, summary.innocent_evicted) == (["node-4"], 0)


@pytest.mark.parametrize(
    ("incidents", "late"),
    [
        ([], False),
        ([REPORTED], False),
        ([INCIDENT], False),
        ([INCIDENT, INCIDENT | {"step": 60}], True),
    ],
    ids=["not noticed", "only reported", "in time", "after the last step"],
)
def test_a_fault_after_the_last_step_is_known_for_one(
    incidents: list[dict[str, Any]], late: bool
) -> None:
    assert too_late(incidents, 60) is late


def test_what_was_over_before_the_fault_is_no_answer_to_it_but_an_eviction_counts() -> None:
    done = Done(said="node-4 is lost", node="node-4", at_s=1_000.0)

    def line(incident: int, at_s: float) -> dict[str, Any]:
        at = datetime.fromtimestamp(at_s, UTC).isoformat()
        return {"incident": incident, "at": at, "seen": False, "verdict": ""}

    story = [line(1, 980.0), line(2, 985.0), line(3, 999.9), line(3, 1_001.0)]
    before, innocent, answer = (
        INCIDENT | {"number": number, "evicted": evicted}
        for number, evicted in ((1, []), (2, ["node-1"]), (3, ["node-4"]))
    )
    assert answering(done, [before, innocent, answer], story) == [innocent, answer]
    assert answering(done, [before | {"number": 3}], story) == [before | {"number": 3}]


@pytest.mark.parametrize("incidents", [[INCIDENT, REPORTED], [REPORTED, INCIDENT]])
def test_what_was_only_reported_beside_the_fault_does_not_spoil_the_verdict(
    incidents: list[dict[str, Any]],
) -> None:
    assert summarise(replace(FACTS, incidents=incidents)) == summarise(FACTS)


def test_a_second_way_back_counts_from_the_fault_with_its_steps_added() -> None:
    again = INCIDENT | {"found_s": 104.0, "evicted": []}
    summary = summarise(replace(FACTS, incidents=[INCIDENT, again]))
    assert (summary.recovered_s, summary.steps_lost) == (6.75, 2)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        pytest.param(
            {"job": {"phase": "Failed", "why": "no luck"}}, "ended as Failed: no luck", id="failed"
        ),
        pytest.param({"incidents": []}, "not noticed", id="nothing was found"),
        pytest.param(
            {"incidents": [INCIDENT | {"recovered_s": None}]}, "no step beyond", id="never back"
        ),
        pytest.param(
            {"done": Done(said="", node="node-1")}, "without cause: node-4", id="an innocent"
        ),
        pytest.param({"expected": Expected()}, "without cause: node-4", id="nobody had to go"),
        pytest.param(
            {"reference": Losses(by_step={1: (5.5).hex(), 2: (4.5).hex()})},
            "differ from the undisturbed run at step 2",
            id="another loss",
        ),
        pytest.param({"losses": replace(LOSSES, disputed=(2,))}, "step 2", id="trained twice"),
        pytest.param({"leftovers": 3}, "3 things were left", id="leftovers"),
    ],
)
def test_whatever_is_wrong_is_the_verdict(changes: dict[str, Any], verdict: str) -> None:
    assert verdict in summarise(replace(FACTS, **changes)).verdict


def test_a_fault_that_nobody_should_notice_passes_unnoticed() -> None:
    quiet = replace(FACTS, expected=Expected(incident=False), delayed_s=None)
    assert summarise(replace(quiet, incidents=[])).verdict == "passed"
    assert "seen where none was" in summarise(quiet).verdict


def test_a_fault_that_ends_the_job_passes_when_it_ends_so_and_compares_no_losses() -> None:
    ends = Expected(phase="Failed", compares_losses=False)
    incident = INCIDENT | {"evicted": [], "recovered_s": None}
    failed = replace(FACTS, expected=ends, incidents=[incident], reference=Losses(by_step={}))
    assert "ended as Succeeded" in summarise(failed).verdict
    summary = summarise(replace(failed, job={"phase": "Failed", "why": "it raised"}))
    assert (summary.verdict, summary.loss_equal_bitwise) == ("passed", None)
    assert "not compared" in _text(result(summary))


def test_the_script_is_the_one_of_the_fault(tmp_path: Path) -> None:
    for script in ("holdfast.workload.main", "holdfast.lab.chaos.scripts.buggy"):
        made = training_job("a", steps=60, standbys=1, folder=tmp_path, script=script)
        assert made["spec"]["command"][2] == script
        assert made["spec"]["env"] == {"CHAOS_BUGS": f"{tmp_path}/bugs/a"}


def test_the_result_says_what_was_measured_and_on_what() -> None:
    shown = _text(result(summarise(FACTS)))
    assert "1.25 s after the fault" in shown
    assert "an emulated cluster: root" in shown


def test_no_line_of_the_result_ends_in_blanks_and_all_values_begin_below_each_other() -> None:
    shown = _text(result(summarise(FACTS))).splitlines()
    assert [line.rstrip() for line in shown] == shown
    assert shown[0] == "passed"
    assert all(line[18] == " " != line[19] for line in shown[1:])


def _text(thing: Any) -> str:
    console = Console(width=140, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()

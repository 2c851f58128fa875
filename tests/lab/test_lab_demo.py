"""The demo's verdict, its picture and its options, from made facts."""

from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from holdfast.lab.demo.options import parse
from holdfast.lab.demo.scene import NodeCell, Scene
from holdfast.lab.demo.summary import Facts, summarise
from holdfast.lab.demo.view import picture, result, sparkline
from holdfast.lab.losses import Losses

LOSSES = Losses(by_step={1: (5.5).hex(), 2: (4.25).hex()})
INCIDENT: dict[str, Any] = {"evicted": ["node-4"], "recovered_s": 1.5, "steps_lost": 1}
FACTS = Facts(
    fault="node-lost",
    nodes=4,
    ranks=8,
    kind="root",
    hurt_node="node-4",
    may_evict=True,
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
    ("changes", "verdict"),
    [
        pytest.param(
            {"job": {"phase": "Failed", "why": "no luck"}}, "ended as Failed: no luck", id="failed"
        ),
        pytest.param({"incidents": []}, "not noticed", id="nothing was found"),
        pytest.param(
            {"incidents": [INCIDENT | {"recovered_s": None}]}, "no step beyond", id="never back"
        ),
        pytest.param({"hurt_node": "node-1"}, "without cause: node-4", id="an innocent"),
        pytest.param({"may_evict": False}, "without cause: node-4", id="nobody had to go"),
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


def test_the_picture_shows_nodes_progress_and_decisions() -> None:
    nodes = (
        NodeCell(name="node-1", rack="rack-1", state="held", ranks=[0, 1], standby=False),
        NodeCell(name="node-5", rack="rack-1", state="held", ranks=[], standby=True),
    )
    scene = Scene(
        act="training", phase="Running", step=5, steps=60, loss=4.5, nodes=nodes, lines=("said",)
    )
    shown = _text(picture(scene))
    for word in ("node-1", "training", "standby", "step 5/60", "loss 4.5000", "said"):
        assert word in shown


def test_the_result_says_what_was_measured_and_on_what() -> None:
    shown = _text(result(summarise(FACTS)))
    assert "1.25 s after the fault" in shown
    assert "an emulated cluster: root" in shown


def test_a_sparkline_spans_its_own_least_and_most() -> None:
    assert sparkline((3.0, 1.0, 2.0), 2) == "▁█"
    assert sparkline((), 5) == ""
    assert sparkline((2.0, 2.0), 5) == "▁▁"


@pytest.mark.parametrize(
    "arguments", [["--fault", "nonsense"], ["--steps", "3"], ["--steps", "many"]]
)
def test_a_wrong_option_is_refused_by_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def _text(thing: Any) -> str:
    console = Console(width=140, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()

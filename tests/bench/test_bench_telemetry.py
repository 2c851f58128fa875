"""The benches of what watching costs: each measures what it says, on less of it."""

import pytest

from holdfast.bench.analysis import benchmark as analysis
from holdfast.bench.figures import Try, figures, ratios
from holdfast.bench.telemetry import benchmark as telemetry
from holdfast.bench.trace import benchmark as trace


def test_in_each_layout_the_rank_that_holds_all_up_is_named() -> None:
    tries: list[Try] = []
    analysis.measure(2, tries.append, lambda _: None, ranks=192)
    named = {one.figure: one.value for one in tries if one.unit == "share"}
    assert named == {f"right rank named, {layout}": 1 for layout in analysis.LAYOUTS}


def test_ranks_are_in_one_group_of_each_kind() -> None:
    layout = analysis.LAYOUTS["tp 8, pp 12"]
    tensor, data = layout.groups(100, 192)
    assert tensor == tuple(range(96, 104))
    assert data == (4, 100)


@pytest.mark.torch
@pytest.mark.slow
def test_each_part_of_what_traces_cost_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    for name in ("STEPS", "LITTLE_STEPS"):
        monkeypatch.setattr(trace, name, 3)
    monkeypatch.setattr(trace, "STEP_TIMES_S", (1.0,))
    monkeypatch.setattr(trace, "SPANS_AN_HOUR", 1_000)
    tries: list[Try] = []
    trace.measure(1, tries.append, lambda _: None, quick=True, only="")
    assert all(one.value is not None for one in tries)
    found = {one.figure: one.value for one in tries}
    kept = found["a rank's hour of 1 s steps, spans kept"]
    assert kept is not None
    assert 10 < kept <= 100
    assert "added to a step that computes little, CPU" in found
    assert "64 ranks' steps, spans packed a second of CPU" in found
    assert sum(one.unit == "s" for one in tries) == 5


@pytest.mark.torch
def test_a_rank_is_measured_with_and_without_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "PAIRS", 2)
    monkeypatch.setattr(telemetry, "COUNT", 50)
    tries: list[Try] = []
    telemetry.measure(1, tries.append, lambda _: None)
    costs = {(one.system, one.figure) for one in tries if one.value is not None}
    assert costs == {
        ("without hooks", telemetry.BARE),
        ("holdfast", telemetry.WATCHED),
        ("holdfast", telemetry.ADDED),
    }
    assert len(tries) == 6
    assert ratios(figures(tries), ours="holdfast") == [], "what doubles a cost is not .5 times it"

"""Tries to figures to ratios; what never came is never a number."""

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.bench import report
from holdfast.bench.figures import Try, figures, quantile, ratios


def tries(system: str, *values: float | None) -> list[Try]:
    return [
        Try(system=system, figure="launch", value=value, note="" if value else "not in 60 s")
        for value in values
    ]


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([3.0], 0.5, 3.0),
        ([1.0, 2.0], 0.5, 1.5),
        ([5.0, 1.0, 3.0], 0.5, 3.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.1, 1.4),
        ([1.0, 2.0, inf], 0.5, 2.0),
        ([1.0, inf, inf], 0.5, None),
        ([1.0, inf], 0.5, None),
    ],
)
def test_quantiles_interpolate_between_order_statistics(
    values: list[float], share: float, expected: float | None
) -> None:
    assert quantile(values, share) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_within_the_values(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found is not None
    assert min(values) <= found * (1 + 1e-12)
    assert found <= max(values) * (1 + 1e-12)


def test_a_try_that_did_not_come_counts_as_longer_than_all_others() -> None:
    (found,) = figures(tries("torchrun", 1.0, None, 2.0))
    assert (found.n, found.missed, found.median, found.p90) == (3, 1, 2.0, None)
    assert found.notes == ("not in 60 s",)


def test_a_ratio_is_theirs_over_ours_and_is_not_made_up() -> None:
    found = figures([*tries("torchrun", 10.0, 30.0, 20.0), *tries("holdfast", 2.0)])
    (ratio,) = ratios(found, ours="holdfast")
    assert (ratio.ratio, ratio.other) == (10.0, "torchrun")
    found = figures([*tries("torchrun", None), *tries("holdfast", 2.0)])
    (ratio,) = ratios(found, ours="holdfast")
    assert ratio.ratio is None
    assert "no median for torchrun" in ratio.note


def test_the_report_has_every_field_for_machines_and_every_figure_for_people() -> None:
    found = figures([*tries("torchrun", 10.0, 12.0), *tries("holdfast", 2.0, None, None)])
    compared = ratios(found, ours="holdfast")
    told = json.loads(report.as_json(found, compared))
    assert set(told) == {"figures", "ratios"}
    for one in told["figures"]:
        assert {"system", "figure", "unit", "median", "p10", "p90", "n"} <= set(one)
    console = Console(record=True, width=120)
    report.show(console, found, compared)
    text = console.export_text()
    assert "11.00" in text
    assert "not in 60 s" in text

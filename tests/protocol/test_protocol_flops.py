"""How much of its devices a job uses, and what is said where that is not known."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_jobs import made_job

from holdfast.driver.core.events import Plan
from holdfast.driver.people.mfu import mfu
from holdfast.protocol.flops import PEAKS, per_token, utilization
from holdfast.protocol.messages import Task

TASK = Task(command=("x",), workdir=".")


def test_flops_are_those_of_palm() -> None:
    found = per_token(1e9, layers=10, heads=8, head_size=64, sequence=1000)
    assert found == 6e9 + 12 * 10 * 8 * 64 * 1000


def test_the_peak_of_a_device_is_that_of_its_data_sheet_or_what_the_job_says() -> None:
    live = SimpleNamespace(tokens_per_s=1e5)
    for told, peak in (({"device": "H100-SXM"}, 989), ({"peakTflops": 500}, 500)):
        spec = json.dumps({"spec": {"mfu": {"flopsPerToken": 1e10, **told}}}).encode()
        plan = Plan(task=TASK, nodes=1, ranks_per_node=4, spec=spec)
        used, why = mfu(made_job("speech", plan), live)  # type: ignore[arg-type]
        assert (used, why) == (pytest.approx(1e15 / (peak * 1e12 * 4)), "")
    nothing = made_job("speech", Plan(task=TASK, nodes=1, ranks_per_node=4))
    assert mfu(nothing, live)[0] is None  # type: ignore[arg-type]


def test_the_table_in_the_docs_is_that_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    names, _, peaks = page.split("| A100")[1].split("\n\n")[0].splitlines()
    told = zip(f"A100{names}".strip("| ").split(" | "), peaks.strip("| ").split(" | "), strict=True)
    assert {name: float(peak.replace(",", "")) for name, peak in told} == PEAKS


def test_a_part_of_the_peak_of_all_ranks() -> None:
    assert utilization(1e5, 1e10, 500, 4) == (pytest.approx(0.5), "")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((1e5, 0, 500, 4), "flopsPerToken"),
        ((1e5, 1e10, 0, 4), "peakTflops"),
        ((1e5, 1e10, 500, 0), "no ranks"),
        ((None, 1e10, 500, 4), "tokens"),
    ],
)
def test_nothing_is_guessed(told: tuple[float | None, float, float, int], why: str) -> None:
    used, unknown = utilization(*told)
    assert used is None
    assert why in unknown

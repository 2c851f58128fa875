"""`holdfast bench page` in short: a small job, one browser."""

from pathlib import Path

import pytest

from holdfast.bench.figures import Try
from holdfast.bench.page import benchmark, seen

pytest.importorskip("playwright")


@pytest.mark.browser
@pytest.mark.skipif(seen.browser_path() is None, reason="there is no chromium")
def test_the_benchmark_measures_each_picture() -> None:
    tries: list[Try] = []
    benchmark.measure(1, tries.append, lambda _: None, ranks=512, minutes=0)
    assert {each.unit for each in tries} == {"ms", "MiB", "%"}
    for view in benchmark.PANNED:
        assert [each for each in tries if each.figure.startswith(f"{view}: ")]
    missing = [each.note for each in tries if each.value is None]
    assert not missing


HANGS = """
import sys, time
print('{"figure": "heat map drawn", "unit": "ms", "value": 7}', flush=True)
print('{"note": "a browser went away"}', flush=True)
print('{"figure": "half', end="", flush=True)
"""


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("time.sleep(3600)", "8 nodes: it did not end within 2 s"),
        ("sys.exit('no room')", "8 nodes: no room"),
        ("", "8 nodes: a browser went away"),
    ],
)
def test_what_came_in_time_counts_and_of_the_rest_it_is_said_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, said: str
) -> None:
    script = tmp_path / "live.py"
    script.write_text(HANGS + end)
    monkeypatch.setattr(benchmark, "LIVE", script)
    monkeypatch.setattr(benchmark, "LIMIT_S", 2.0)
    tries: list[Try] = []
    benchmark._live(8, 0.0, tries.append)
    assert len(tries) == len(benchmark.FIGURES) - 1, "without minutes there is no heap at their end"
    assert [each.value for each in tries if each.value is not None] == [7]
    assert {each.note for each in tries if each.value is None} == {said}

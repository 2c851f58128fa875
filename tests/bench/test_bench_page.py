"""`holdfast bench page` in short: a small job, one browser."""

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

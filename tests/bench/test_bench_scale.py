"""The benchmark of scale: both scripts come to their end, and what cannot be is refused."""

from pathlib import Path

import pytest

from holdfast.bench.counts import BadSizes, counts
from holdfast.bench.figures import Incomplete, Try, figures
from holdfast.bench.scale.benchmark import measure

ROOT = Path(__file__).parents[2]


def _measured(**options: object) -> list[Try]:
    tries: list[Try] = []
    measure(1, tries.append, lambda what: None, sizes=[30], **options)  # type: ignore[arg-type]
    return tries


def test_a_job_starts_loses_its_ranks_and_ends_and_every_stage_costs_something() -> None:
    found = figures(_measured())
    stages = {one.figure.split(",")[0] for one in found}
    assert stages == {"come", "start", "exits", "end", "heartbeat"}
    assert all(one.median is not None and one.median > 0 for one in found)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_an_earlier_commit_is_measured_beside_it() -> None:
    systems = {one.system for one in _measured(before="HEAD")}
    assert systems == {"holdfast", "HEAD"}


def test_a_commit_that_is_none_is_refused() -> None:
    with pytest.raises(Incomplete, match="'no-such-commit' is no commit"):
        _measured(before="no-such-commit")


def test_sizes_are_numbers_from_one_on() -> None:
    assert counts("2000, 500,500") == [500, 2000]
    with pytest.raises(BadSizes, match="numbers with commas"):
        counts("many")
    with pytest.raises(BadSizes, match="has to be 1 or more"):
        counts("0")

"""The detector of slow ranks on traces of real ones (`python -m holdfast.bench.slow record`)."""

from pathlib import Path
from random import Random

import pytest

from holdfast.bench.slow import judge, traces
from holdfast.protocol.faults import Kind

TRACES = Path(__file__).with_name("traces")


@pytest.mark.parametrize("name", ["quiet", "busy", "fresh"])
def test_nobody_is_told_in_ten_thousand_steps_of_healthy_ranks(name: str) -> None:
    beats = traces.read(TRACES / f"{name}.jsonl.xz")
    assert list(judge.told(traces.bootstrapped(beats, 10_000, Random(1)))) == []


def test_who_really_computed_twice_as_long_is_told_and_nobody_else() -> None:
    beats = traces.read(TRACES / "slow.jsonl.xz")
    found = [(b, each) for b, each in judge.told(beats) if each.kind is Kind.SLOW]
    assert sum(beat.percent == 100 for beat, _ in found) == 3
    assert all(each.rank == beat.slow for beat, each in found)

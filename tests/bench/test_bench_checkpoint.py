"""`holdfast bench checkpoint`: a run of it, small, and one that does not come to its end."""

from pathlib import Path

import pytest

from holdfast.bench.checkpoint import benchmark
from holdfast.bench.checkpoint.ways import ASYNC, BARE, COPY, DCP, FIRST, LATE, OURS, TORCH
from holdfast.bench.figures import Incomplete

pytestmark = [pytest.mark.cluster, pytest.mark.torch]

SAVE = "module: save of 0.01 GiB, blocked"
RESTORE = "module: restore of 0.01 GiB into"


def test_a_run_saves_and_restores_in_all_ways_in_turn(tmp_path: Path) -> None:
    tries = [*benchmark.run(tmp_path, "module", 0.01)]
    seen = {(one.system, one.figure) for one in tries}
    first = {
        (who, f"module: {which} save of 0.01 GiB, blocked")
        for who in (COPY, OURS)
        for which in FIRST
    }
    in_turn = {(who, SAVE) for who in (COPY, OURS, TORCH, DCP, ASYNC)}
    restored = {(who, f"{RESTORE} memory in use") for who in (OURS, TORCH, DCP)}
    begun = {(OURS, f"{RESTORE} a rank that has just begun")}
    assert first | in_turn | restored | begun <= seen
    assert {who for who, figure in seen if "training while" in figure} == {OURS, ASYNC}
    steps = "module: a step of 0.01 GiB with a save after it"
    assert {(who, steps) for who in (BARE, OURS, LATE)} <= seen
    assert all(one.value is not None and one.value > 0 for one in tries)


def test_a_run_that_fails_says_what_it_said_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "SCRIPT", tmp_path / "not-there.py")
    with pytest.raises(Incomplete, match="there is no script"):
        [*benchmark.run(tmp_path, "module", 0.01)]


def test_a_device_that_is_not_here_is_said_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benchmark.torch.cuda, "is_available", lambda: False)
    said: list[str] = []
    with pytest.raises(Incomplete, match=r"--device cuda: torch .* finds no GPU here"):
        benchmark.measure(1, lambda one: None, said.append, gib=0.01, device="cuda")
    assert said == []

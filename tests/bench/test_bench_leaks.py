"""`bench leaks` and `bench endurance`: what is counted, and that a short run comes to its end."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.endurance import benchmark as endurance
from holdfast.bench.leaks.counted import Counted, Process, least

pytestmark = pytest.mark.torch


def counted(files: int, processes: int = 9) -> Counted:
    of = {
        name: Process(files=files, threads=3, memory_mb=20.0 + files)
        for name in ("executor", "daemon", "agent", "launcher")
    }
    return Counted(of=of, processes=processes, left=0, slots_mb=1.0)


def test_what_is_open_for_a_moment_is_no_leak() -> None:
    found = least([counted(9, 8), counted(7, 9), counted(8, 10)])
    assert found == counted(7, 8)


def test_faults_come_in_turn_and_a_run_is_as_long_as_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[tuple[int, list[str]]] = []

    def run(folder: Path, steps: int, names: list[str], every_s: float) -> tuple[float, float]:
        played.append((steps, list(names)))
        (folder / "steps").write_text("1 10.0\n2 10.1\n3 10.2\n2 19.9\n3 20.0\n")
        return 60.0, 2.0

    monkeypatch.setattr(endurance, "_ours", run)
    monkeypatch.setattr(endurance, "_torchrun", run)
    tries: list[Any] = []
    endurance.measure(1, tries.append, print, every_s=10.0, faults=4)
    assert played == [(500, ["rank", "node", "store", "rank"])] * 2
    ratios = [one.value for one in tries if one.figure == "times what it has to take"]
    assert ratios == [pytest.approx(60 / 52)] * 2, "the 9.7 s of a recovery are no step"


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_piles_up_over_saves_and_restarts() -> None:
    words = ["bench", "leaks", "--saves", "60", "--restarts", "6", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {one["figure"]: one["median"] for one in json.loads(done.stdout)["figures"]}
    assert found["agent: memory beside the slots"] < 100
    none = [
        name
        for name in found
        if "open files" in name or "threads" in name or "processes" in name or "left" in name
    ]
    assert {name: found[name] for name in none if found[name] > 0} == {}

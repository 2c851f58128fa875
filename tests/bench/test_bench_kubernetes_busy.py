"""`holdfast bench busy` as a person runs it, and what is left."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_running import bench_folder, left_of, running
from waiting import eventually

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow),
    pytest.mark.timeout(300),
]

BUSY = ("busy", "--others", "500", "--rounds", "1")


@pytest.fixture
def folder() -> Iterator[Path]:
    with bench_folder() as short:
        yield short


def test_a_busy_fleet_is_counted_and_a_job_gets_what_others_left_and_nothing_is_left(
    folder: Path,
) -> None:
    with running(folder, *BUSY) as bench:
        out, _ = bench.communicate()
    said = (folder / "said").read_text()
    assert bench.returncode == 0, said
    assert "500 of 500" in said
    figures = {one["figure"]: one for one in json.loads(out)["figures"]}
    for figure in ("driver started until sums are right", "driver's memory", "2-node job bound"):
        assert figures[f"{figure}, 500 others"]["median"] > 0
    written = figures["writes until it is bound, 500 others"]
    assert all("2 create pods" in note for note in written["notes"]), "none for a node that is full"
    assert left_of(folder) == []


def test_a_ctrl_c_while_pods_of_others_are_made_leaves_nothing(folder: Path) -> None:
    with running(folder, "busy", "--others", "1000", "--rounds", "1") as bench:
        said = folder / "said"
        eventually(lambda: "of 1000" in said.read_text(), "pods of others are made")
        bench.send_signal(signal.SIGINT)
        out, _ = bench.communicate()
    assert bench.returncode == 130
    assert len(json.loads(out)["figures"]) == 1, "what was measured before is told"
    assert left_of(folder) == []

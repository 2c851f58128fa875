"""`holdfast bench kubernetes` as a person runs it, and what is left."""

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

SMALL = ("--nodes", "40", "--gang", "20", "--rounds", "1")
QUICK = "60 pods on 100 nodes"
PODS, NODES = 60, 100


@pytest.fixture
def folder() -> Iterator[Path]:
    with bench_folder() as short:
        yield short


def test_a_run_measures_a_gang_beside_bare_pods_and_leaves_nothing(folder: Path) -> None:
    """As it is shipped: what differs where a driver is alone, `bench busy` runs to its end."""
    with running(folder, "kubernetes", "--quick", "--as-shipped") as bench:
        out, _ = bench.communicate()
    said = (folder / "said").read_text()
    if "no PostgreSQL here" in said:
        pytest.skip(said)
    assert bench.returncode == 0, said
    figures = {(one["figure"], one["system"]): one for one in json.loads(out)["figures"]}
    for system in ("holdfast", "bare create"):
        assert figures[f"bound, {QUICK}", system]["median"] > 0
    for system in ("holdfast", "kubernetes.aio, typed"):
        assert figures[f"first full list, {QUICK}", system]["notes"] == [
            f"{PODS + 2 + NODES + 2} objects"
        ]
        assert figures[f"CPU of an event, {QUICK}", system]["median"] > 0
    assert figures[f"condition to decision, median, {QUICK}", "holdfast"]["median"] > 0
    assert figures[f"executors back, {QUICK}", "holdfast"]["median"] > 0
    assert figures[f"restarts of the job beside, {QUICK}", "holdfast"]["median"] == 0
    written = figures[f"writes of pods in all, {QUICK}", "holdfast"]
    assert f"{PODS + 2} create pods" in written["notes"][0]
    until_it_runs = figures[f"writes of pods until it runs, {QUICK}", "holdfast"]
    assert until_it_runs["median"] <= 2.0, "a create, and a gate taken off"
    assert left_of(folder) == []


def test_a_ctrl_c_leaves_nothing(folder: Path) -> None:
    with running(folder, "kubernetes", *SMALL) as bench:
        said = folder / "said"
        eventually(lambda: "the same pods, bare" in said.read_text(), "it runs")
        assert left_of(folder) != []
        bench.send_signal(signal.SIGINT)
        out, _ = bench.communicate()
    assert bench.returncode == 130
    assert json.loads(out) == {"figures": [], "ratios": []}
    assert left_of(folder) == []

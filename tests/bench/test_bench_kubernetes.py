"""`holdfast bench kubernetes --quick` and `bench busy` as a person runs them, and what is left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import eventually

from holdfast.keeper.processes import all_pids
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.programs import command

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch]

BENCH = [sys.executable, "-m", "holdfast.cli", "bench"]
BUSY = ("busy", "--others", "500", "--rounds", "1")
SMALL = ("--nodes", "40", "--gang", "20", "--rounds", "1")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a short name: it has Unix sockets in it. A PostgreSQL, which is not root's, passes it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as short:
        Path(short).chmod(0o711)
        yield Path(short)


@contextmanager
def running(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The benchmark, with all its files in the folder."""
    for program in ("kubectl", "kwok"):
        try:
            command(program)
        except NotHere as missing:
            pytest.skip(str(missing))
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    with (folder / "said").open("w") as said:
        environment, pipe = os.environ | {"TMPDIR": str(folder)}, subprocess.PIPE
        bench = subprocess.Popen(
            [*BENCH, *options, "--json"], env=environment, stdout=pipe, stderr=said, text=True
        )
        with bench as process:
            try:
                yield process
            finally:
                process.kill()


def left_of(folder: Path) -> list[str]:
    """Commands of processes that name the folder, and what lies in it."""
    found = [path.name for path in folder.iterdir() if path.name != "said"]
    for pid in all_pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if str(folder).encode() in words:
            found.append(words.decode().replace("\0", " "))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("how", "pods", "nodes"),
    [(["--quick"], 60, 100), ([*SMALL, "--as-shipped"], 20, 40)],
    ids=["quick", "as shipped"],
)
def test_a_run_measures_a_gang_beside_bare_pods_and_leaves_nothing(
    folder: Path, how: list[str], pods: int, nodes: int
) -> None:
    with running(folder, "kubernetes", *how) as bench:
        out, _ = bench.communicate()
    said = (folder / "said").read_text()
    if "no PostgreSQL here" in said:
        pytest.skip(said)
    assert bench.returncode == 0, said
    figures = {(one["figure"], one["system"]): one for one in json.loads(out)["figures"]}
    size = f"{pods} pods on {nodes} nodes"
    for system in ("holdfast", "bare create"):
        assert figures[f"bound, {size}", system]["median"] > 0
    for system in ("holdfast", "kubernetes.aio, typed"):
        assert figures[f"first full list, {size}", system]["notes"] == [
            f"{pods + 2 + nodes + 2} objects"
        ]
        assert figures[f"CPU of an event, {size}", system]["median"] > 0
    assert figures[f"condition to decision, median, {size}", "holdfast"]["median"] > 0
    assert figures[f"executors back, {size}", "holdfast"]["median"] > 0
    assert figures[f"restarts of the job beside, {size}", "holdfast"]["median"] == 0
    written = figures[f"writes of pods in all, {size}", "holdfast"]
    assert f"{pods + 2} create pods" in written["notes"][0]
    until_it_runs = figures[f"writes of pods until it runs, {size}", "holdfast"]
    assert until_it_runs["median"] <= 2.0, "a create, and a gate taken off"
    assert left_of(folder) == []


@pytest.mark.timeout(300)
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


@pytest.mark.timeout(300)
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


@pytest.mark.timeout(300)
def test_a_ctrl_c_while_pods_of_others_are_made_leaves_nothing(folder: Path) -> None:
    with running(folder, "busy", "--others", "5000", "--rounds", "1") as bench:
        said = folder / "said"
        eventually(lambda: "of 5000" in said.read_text(), "pods of others are made")
        bench.send_signal(signal.SIGINT)
        out, _ = bench.communicate()
    assert bench.returncode == 130
    assert len(json.loads(out)["figures"]) == 1, "what was measured before is told"
    assert left_of(folder) == []

"""`holdfast driver --local-nodes`: a driver and its nodes by one command, and gone with it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.cli.errors import Stopped
from holdfast.cli.main import main
from holdfast.cli.pair import Pair
from holdfast.keeper import state as states
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

Capture = pytest.CaptureFixture[str]


def _started(state: Path, log: Path, nodes: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "holdfast.cli", "driver", "--state", str(state)]
    with log.open("ab") as file:
        return subprocess.Popen([*command, "--local-nodes", str(nodes)], stdout=file, stderr=file)


def _phase(state: Path, capsys: Capture) -> str:
    capsys.readouterr()
    assert main(["status", "two", "--state", str(state), "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["phase"])


def test_one_command_runs_a_job_on_nodes_that_end_with_it(tmp_path: Path, capsys: Capture) -> None:
    state, log = tmp_path / "state", tmp_path / "log"
    process = _started(state, log, 2)
    try:
        eventually((state / "driver.json").exists, "the driver answers")
        job = tmp_path / "job.yaml"
        job.write_text("metadata: {name: two}\nspec: {nodes: 2, command: ['true']}\n")
        assert main(["submit", str(job), "--state", str(state)]) == 0
        eventually(lambda: _phase(state, capsys) == "Succeeded", "both nodes have run it")
        kept = states.load(state)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == exitcodes.OK
    assert kept
    hosts = [node.host_pid for node in kept.nodes.values()]
    assert len(hosts) == 2
    assert not [pid for pid in hosts if Path(f"/proc/{pid}").exists()]
    said = log.read_text()
    assert "driver at http://127.0.0.1:" in said
    assert "2 nodes on this machine" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--local-nodes", "2", "--keeper", "k.sock"], "--local-nodes starts a keeper of its own"),
        (["--local-standbys", "1"], "without --local-nodes there are none"),
        (["--local-nodes", "0"], "--local-nodes: '0' is less than 1.  Give a number, 1 or more."),
    ],
)
def test_what_cannot_be_together_is_refused(
    words: list[str], sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["driver", "--state", str(tmp_path / "state"), *words]) == exitcodes.USAGE
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_another_number_of_nodes_than_the_folder_has_is_refused(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "keeper.json").write_text(
        '{"run_id": "a", "token": "t", "lease_host": "127.0.0.1",'
        ' "nodes": {"node-1": {"name": "node-1", "folder": "", "memory": "", "address": ""}}}'
    )
    words = ["driver", "--state", str(tmp_path), "--local-nodes", "2"]
    assert main(words) == exitcodes.USAGE
    said = capsys.readouterr().err
    assert "has 1 node from before" in said
    assert "Ask for 1 in all" in said


def test_a_variable_that_the_nodes_would_refuse_is_told_before_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DAEMON_METRICS", "nonsense")
    pair = Pair(RunPaths(tmp_path))
    with pytest.raises(Stopped, match=r"HOLDFAST_DAEMON_METRICS: 'nonsense'.*set it to"):
        pair.start(nodes=1, standbys=0)
    assert not list(tmp_path.iterdir())

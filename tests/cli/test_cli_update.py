"""`holdfast update`: what runs ends in order, and the next attempt runs the other version."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.cli.main import main
from holdfast.protocol import exitcodes

Capture = pytest.CaptureFixture[str]

SCRIPT = """
import os, pathlib, signal, sys, time
say = pathlib.Path("ran").open("a", buffering=1).write
def end(*_):
    say("ended in order\\n")
    sys.exit()
signal.signal(signal.SIGTERM, end)
say(f"version {os.environ['VERSION']}\\n")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Of a driver with one node."""
    state = tmp_path / "state"
    words = ["driver", "--state", str(state), "--local-nodes", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually((state / "driver.json").exists, "the driver answers")
        yield state
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


def written(folder: Path, version: int, *, nodes: int = 1, name: str = "edited") -> str:
    """The job's file, with a script that says which version it is."""
    (folder / "train.py").write_text(SCRIPT)
    file = folder / "job.yaml"
    file.write_text(
        f"metadata: {{name: {name}}}\n"
        "spec:\n"
        f"  nodes: {nodes}\n"
        f"  workdir: {folder}\n"
        "  command: [python, -u, train.py]\n"
        f"  env: {{VERSION: '{version}'}}\n"
    )
    return str(file)


def test_what_runs_ends_in_order_and_the_next_attempt_runs_the_other_version(
    state: Path, tmp_path: Path, capsys: Capture
) -> None:
    ran = tmp_path / "ran"
    here = ("--state", str(state))
    assert main(["submit", written(tmp_path, 1), *here]) == 0
    eventually(lambda: ran.exists() and ran.read_text() == "version 1\n", "the first one runs")
    capsys.readouterr()
    assert main(["update", written(tmp_path, 2), *here]) == 0
    assert "gives edited version 2, which changes env" in capsys.readouterr().out
    wanted = "version 1\nended in order\nversion 2\n"
    eventually(lambda: ran.read_text() == wanted, "the other one runs")
    main(["status", "edited", "--json", *here])
    job = json.loads(capsys.readouterr().out)
    assert (job["version"], job["attempt"]) == (2, 2)
    assert sum(budget["used"] for budget in job["restarts"].values()) == 0

    assert main(["update", written(tmp_path, 2), *here]) == exitcodes.USAGE
    assert "as the job's newest version already" in capsys.readouterr().err
    assert main(["update", written(tmp_path, 3, nodes=2), *here]) == exitcodes.USAGE
    said = capsys.readouterr().err
    assert "job.yaml:3  spec.nodes: it is 1 for as long as the job lives." in said
    assert "nothing was changed" in said
    assert main(["update", written(tmp_path, 3, name="nobody"), *here]) == exitcodes.FAILED
    assert main(["stop", "edited", *here]) == 0


def test_a_file_that_is_no_job_is_refused_before_anybody_is_asked(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("metadata: {name: x}\nspec: {comand: [a]}\n")
    assert main(["update", str(file), "--driver", "http://127.0.0.1:1"]) == exitcodes.USAGE
    said = capsys.readouterr().err
    assert "job.yaml:2" in said
    assert "nothing was changed" in said
    assert main(["update", str(tmp_path / "none.yaml")]) == exitcodes.USAGE
    assert "Nothing was changed." in capsys.readouterr().err

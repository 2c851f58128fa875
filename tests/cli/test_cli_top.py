"""`holdfast top` in a real terminal, with a real driver, nodes and job."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from ports import free_port
from running_driver import DriverProcess
from seen_terminal import Seen, in_terminal
from shells import HOLDFAST, Shell, shell_in
from waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

SLEEPS = "import time\ndef waits():\n    time.sleep(600)\nprint('up', flush=True)\nwaits()\n"
JOB = """
metadata: {name: speech}
spec: {nodes: 2, command: [python, sleeps.py]}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A driver with three nodes of this machine; a job of two ranks runs."""
    with shell_in(tmp_path) as made:
        made.script("sleeps.py", SLEEPS)
        made.script("job.yaml", JOB)
        made.start("driver", "--state", "state", "--local-nodes", "3")
        eventually((tmp_path / "state/driver.json").exists, "the driver answers")
        made.told["HOLDFAST_STATE"] = "state"
        assert made.holdfast("submit", "job.yaml").returncode == 0
        eventually(lambda: phase(made) == "Running", "the job runs")
        yield made


def phase(shell: Shell) -> str:
    return str(json.loads(shell.asked("status", "speech", "--json").stdout)["phase"])


def top(shell: Shell, *words: str, **told: str) -> AbstractContextManager[Seen]:
    return in_terminal(
        [*HOLDFAST, "top", *words], shell.folder, {"HOLDFAST_STATE": "state", **told}
    )


def test_a_job_is_watched_its_stacks_taken_a_node_evicted_and_it_is_stopped(
    shell: Shell,
) -> None:
    sampled = shell.asked("stack", "speech", "0-1")
    assert sampled.stdout.startswith("2 ranks: 0-1\n  Thread (idle)"), sampled
    with top(shell, NO_COLOR="1") as seen:
        seen.until("1 job · 3 nodes", "speech", "Running", "> speech")
        assert seen.other_screen
        seen.keys("\r")
        seen.until("[ranks]", "RANK", "> 0")
        seen.keys("k")
        seen.until("stacks of speech", "waits (")
        seen.keys("\x1b")
        seen.until("[ranks]")
        held = json.loads(shell.asked("status", "speech", "--json").stdout)["places"][0]["node"]
        seen.keys("e")
        seen.until(f"Evict {held}: why?")
        seen.keys("loud fan\r")
        seen.until(f"Evict {held}?", "speech stops on all of its 2 ranks")
        seen.keys("y")
        seen.until("[ranks]", "speech  Running")
        seen.keys("\x1b[C")
        seen.until("[nodes]", "quarantined", f"a person wants {held} out")
        seen.resize(120, 12)
        seen.until("[nodes]", "loud fan")
        seen.keys("s")
        seen.until("Stop speech?")
        seen.keys("y")
        seen.until("speech  Stopped")
        seen.keys("q")
        assert seen.ended() == 0
        assert not seen.other_screen
        assert seen.styles <= {"0", "1", "2", "7"}, "no colour"
    assert phase(shell) == "Stopped"
    told = shell.asked("incident", "speech", "--html", "it.html")
    assert told.stdout.endswith("of speech is in it.html\n")
    assert "loud fan" in (shell.folder / "it.html").read_text()
    assert "loud fan" in shell.asked("incidents", "--format", "csv").stdout
    assert "incident" in shell.asked("incident", "speech").stdout
    assert "1 job submitted" in shell.asked("digest").stdout
    shell.asked("digest", "--html", "week.html")
    assert "<h1>Digest" in (shell.folder / "week.html").read_text()
    refused = shell.asked("stack", "speech", "0")
    assert (refused.returncode, "no rank of speech runs" in refused.stderr) == (1, True)


def test_a_driver_that_is_away_is_said_and_it_goes_on_when_it_is_back(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = DriverProcess(tmp_path / "state", "--listen", address)
    process.spawn()
    eventually(process.paths.address.exists, "the driver answers")
    token = process.paths.user_token.read_text().strip()
    command = [*HOLDFAST, "top", "--driver", f"http://{address}"]
    try:
        with in_terminal(command, tmp_path, {"HOLDFAST_TOKEN": token}) as seen:
            seen.until("0 jobs · 0 nodes")
            assert process.end(signal.SIGKILL)
            seen.until("The driver is away. What follows is of ")
            process.spawn()
            eventually(lambda: "is away" not in seen.text(), "it has seen that it is back")
            seen.until("0 jobs · 0 nodes")
            os.kill(seen.process.pid, signal.SIGTERM)
            seen.ended()
            assert not seen.other_screen
    finally:
        process.end()


def test_where_there_is_no_terminal_it_shows_all_once(tmp_path: Path) -> None:
    process = DriverProcess(tmp_path / "state")
    process.spawn()
    eventually(process.paths.address.exists, "the driver answers")
    try:
        for more in ([], ["--json"]):
            command = [sys.executable, "-m", "holdfast.cli", "top", "--state", "state", *more]
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert "no jobs" in done.stdout or json.loads(done.stdout)["jobs"] == []
        command = [*HOLDFAST, "top", "no-such-job", "--state", "state"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S
        )
        assert done.returncode != 0
        assert "there is no job 'no-such-job'" in done.stderr
    finally:
        process.end()

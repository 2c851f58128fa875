"""How fast a job goes against its own best, though the driver that had seen that is killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from shells import Shell, heard, shell_in
from waiting import eventually

from holdfast.cli.offline import Recorded
from holdfast.driver.watch.jobs import FASTER
from holdfast.protocol.paths import RunPaths

pytestmark = pytest.mark.cluster

FAST_S, SLOW_S = 0.1, 0.6
TRAINS = f"""
import os, time, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not os.path.exists("end"):
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    time.sleep({SLOW_S} if os.path.exists("slow") else {FAST_S})
"""


def test_a_driver_that_is_killed_does_not_forget_how_fast_its_job_was(tmp_path: Path) -> None:
    with shell_in(tmp_path, warm=True) as shell:
        shell.script("train.py", TRAINS)
        process = shell.start("run", "-n", "1", "train.py")
        heard(process, "rank here")
        eventually(lambda: told(shell) is not None, "it is known how fast it is")
        kept = eventually(lambda: of_journal(shell), "that is written down")
        shell.script("slow", "")
        before = driver_of(shell)
        os.kill(before, signal.SIGKILL)
        eventually(lambda: driver_of(shell) not in (0, before), "another driver is there")
        best_s = eventually(lambda: told(shell), "the other one knows it")
        assert FAST_S < best_s <= kept < SLOW_S
        shell.script("end", "")
        assert process.wait(60) == 0
        after = asked(shell)["best_step_s"]
        assert after is not None, "it is told of a run that has ended"
        assert best_s * FASTER <= after <= kept


def asked(shell: Shell) -> dict[str, Any]:
    said = shell.asked("status", "--json").stdout
    found: dict[str, Any] = json.loads(said) if said else {}
    return found


def told(shell: Shell) -> float | None:
    best_s: float | None = asked(shell).get("best_step_s")
    return best_s


def of_journal(shell: Shell) -> float | None:
    """What the journal has of it, as of a run whose driver is gone."""
    best_s: float | None = Recorded(shell.run).jobs()[0]["best_step_s"]
    return best_s


def driver_of(shell: Shell) -> int:
    """PID of the run's driver; 0 while there is none."""
    try:
        return int(json.loads(RunPaths(shell.run).address.read_text())["pid"])
    except (OSError, ValueError):
        return 0

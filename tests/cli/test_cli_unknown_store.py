"""A store of which nobody knows what it has: the job waits, says so, and a person ends that."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

from holdfast.checkpoint.layout import MANIFEST, folder_name

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

TRAINS = """
import os, pathlib, time
import torch
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

checkpointer = Checkpointer.from_env()
state = {"w": torch.zeros(1_000)}
step = checkpointer.restore(state) or 0
with open("starts", "a") as starts:
    print(step, os.getpid(), os.environ["HOLDFAST_SLOTS"], file=starts)
while not pathlib.Path("enough").exists():
    step += 1
    state["w"] += 1
    telemetry.step(step)
    if step <= 50:  # one checkpoint reaches the store, and nothing is on its way then
        checkpointer.save(step, state)
    time.sleep(0.002)
"""


@pytest.fixture
def trains(shell: Shell) -> "subprocess.Popen[str]":
    """A job whose driver knows that a checkpoint is in the store."""
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    process = shell.start("run", "-n", "1", "train.py")
    eventually(lambda: "is in the store" in shell.asked("story", "--all").stdout, "acknowledged")
    return process


def starts(shell: Shell) -> list[int]:
    """The step from which each attempt began."""
    return [int(line.split()[0]) for line in (shell.folder / "starts").read_text().splitlines()]


def lose_rank_and_memory(shell: Shell) -> None:
    """The rank is killed, and its snapshots go with it."""
    *_, last = (shell.folder / "starts").read_text().splitlines()
    _, pid, slots = last.split()
    os.kill(int(pid), signal.SIGSTOP)  # so that it makes no other slot
    lost = Path(slots).rename(f"{slots}.lost")  # at once: its agent makes those that are missing
    shutil.rmtree(lost)
    os.kill(int(pid), signal.SIGKILL)


def status(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.asked("status", "--json").stdout)
    return found


def waits(shell: Shell, what: str) -> None:
    """It waits to know what its store has, and says so; `what` it knows of it may come later."""
    eventually(lambda: what in (status(shell)["waiting"] or ""), what)
    assert status(shell)["unsure_s"] is not None


def ends_well(shell: Shell, process: "subprocess.Popen[str]") -> None:
    (shell.folder / "enough").touch()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors


def test_a_job_waits_until_its_store_has_been_looked_through(
    shell: Shell, trains: "subprocess.Popen[str]"
) -> None:
    job = status(shell)
    store = Path(job["store_url"].removeprefix("file://"))
    hangs = store / folder_name(10**7, 1)
    hangs.mkdir()
    os.mkfifo(hangs / MANIFEST)  # whoever reads it waits for a writer
    lose_rank_and_memory(shell)

    waits(shell, "is still being searched: nothing found so far")
    assert "is still being searched" in shell.asked("status").stdout
    told = shell.asked("why", job["name"]).stdout
    assert "it waits to learn which checkpoints its store has, since" in told
    assert f"holdfast resume {job['name']} --from-start" in told
    refused = shell.asked("resume", job["name"], "--from-step", "7")
    assert refused.returncode != 0
    assert "step 7 is not among the checkpoints that are found: none" in refused.stderr
    assert starts(shell) == [0]

    with (hangs / MANIFEST).open("wb"):  # a reader is there
        shutil.rmtree(hangs)
    eventually(lambda: len(starts(shell)) == 2, "it goes on")
    assert starts(shell)[1] > 0
    eventually(lambda: status(shell)["unsure_s"] is None, "it waits no more")
    ends_well(shell, trains)


def test_a_person_has_a_job_begin_anew_whose_checkpoints_are_gone(
    shell: Shell, trains: "subprocess.Popen[str]"
) -> None:
    name = status(shell)["name"]
    for folder in Path(status(shell)["store_url"].removeprefix("file://")).glob("step-*"):
        shutil.rmtree(folder, ignore_errors=True)
    early = shell.asked("resume", name, "--from-start")
    assert early.returncode != 0, "it trains"
    lose_rank_and_memory(shell)
    waits(shell, "was in its store, and no step is found now")

    done = shell.asked("resume", name, "--from-start")
    assert done.returncode == 0, done.stderr
    eventually(lambda: len(starts(shell)) == 2, "it begins")
    assert starts(shell) == [0, 0]
    assert "wants" in (story := shell.asked("story", name).stdout)
    assert "to go on from the beginning" in story
    ends_well(shell, trains)

"""A run that was ended by Ctrl-C goes on in another one."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

TRAINS = """
import pathlib, time
import torch
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

checkpointer = Checkpointer.from_env()
state = {"w": torch.zeros(1_000), "data": {"position": 0}}
start = checkpointer.restore(state) or 0
print("begins at", start, state["data"]["position"], float(state["w"].sum()), flush=True)
step = start
while step < 1_000_000 and not pathlib.Path("enough").exists():
    step += 1
    state["w"] += 1
    state["data"]["position"] = step
    telemetry.step(step)
    checkpointer.save(step, state)
    pathlib.Path("saving").write_text(str(step))
    pathlib.Path("saving").replace("saved")
    time.sleep(0.05)
"""


def test_ctrl_c_and_again_loses_no_step(shell: Shell) -> None:
    """Long before the first checkpoint is due: what is in memory goes to the store at the end."""
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    first = shell.start("run", "train.py")
    saved = shell.folder / "saved"
    eventually(lambda: saved.exists() and int(saved.read_text()) > 5, "it trains")
    os.kill(first.pid, signal.SIGINT)
    out, _ = first.communicate(timeout=DEADLINE_S)
    assert "begins at 0 0 0.0" in out
    life = next(shell.folder.glob("runs/*/jobs/*/checkpoints/life-*"))
    (step,) = (int(path.parent.name[5:13]) for path in life.glob("*/manifest.json"))
    assert 0 <= step - int(saved.read_text()) <= 1  # it may have been killed right after its save
    assert step < 50

    (shell.folder / "enough").touch()
    again = shell.holdfast("run", "--begin-from", "last", "train.py")
    assert again.returncode == 0, again.stderr
    assert f"begins at {step} {step} {step * 1000.0}" in again.stdout
    assert f"begins from step {step}, file://" in again.stderr
    assert "it goes on from what an earlier job left in file://" in shell.asked("story").stdout
    assert shell.leftovers() == []


def test_what_does_not_fit_the_script_ends_the_run_at_the_first_try(shell: Shell) -> None:
    shell.script("train.py", TRAINS.replace("while step < 1_000_000", "while step < 3"))
    assert shell.holdfast("run", "train.py").returncode == 0
    shell.script("train.py", TRAINS.replace("torch.zeros(1_000)", "torch.zeros(7)"))
    ended = shell.holdfast("run", "--begin-from", "last", "train.py")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "CheckpointMisfit: step 3 of file://" in last
    assert "w: torch.float32 [7] here, but the checkpoint has torch.float32 [1000]. Nothing" in last
    assert "Name another checkpoint (--begin-from, beginFrom, begin_from)" in last
    assert "Another restart would not help. (1 fault (likely user code)" in last
    assert "restarting" not in ended.stderr


def test_the_workload_goes_on_as_another_layout(shell: Shell) -> None:
    """Its optimizer is a flat buffer of a stage and tensor-parallel rank, which is cut anew."""
    pytest.importorskip("torch")
    sizes = "--layers 2 --hidden 16 --heads 2 --seq 8 --global-batch 4 --micro-batch 1"
    workload = ("-m", "holdfast.workload.main", *sizes.split(), "--dtype", "float64")
    began = ("--tp", "2", "--dp", "2", "--steps", "6")
    first = shell.holdfast("run", "-n", "4", *workload, *began)
    assert first.returncode == 0, first.stderr
    url = next(shell.folder.glob("runs/*/jobs/*/checkpoints/life-*")).as_uri()

    def losses(*layout: str) -> list[float]:
        more = ("--steps", "10", "--print-every", "1")
        done = shell.holdfast("run", "-n", "4", "--begin-from", url, *workload, *layout, *more)
        assert done.returncode == 0, done.stderr
        newest = max(shell.folder.glob("runs/*"), key=lambda run: run.stat().st_mtime_ns)
        lines = next(newest.glob("jobs/*/attempt_1/rank_*/metrics.jsonl")).read_text()
        told = [json.loads(line) for line in lines.splitlines()]
        assert [line["step"] for line in told] == [7, 8, 9, 10]
        return [line["loss"] for line in told]

    expected = losses("--tp", "2", "--dp", "2")
    assert losses("--pp", "2", "--dp", "2") == pytest.approx(expected, rel=1e-12, abs=0)
    refused = shell.holdfast("run", "-n", "4", "--begin-from", url, *workload, "--tp", "4")
    assert "--heads: 2 is not a multiple of the tensor-parallel size 4" in refused.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("last", "no run in runs has checkpoints"),
        ("nothing", "'nothing' is neither a store's URL, nor a folder, nor a run in runs"),
        ("gopher://x", "'gopher://x' is no store that this Holdfast knows"),
        ("empty", "there is nothing at file://.*/empty"),
        ("torn", "file://.*/torn has no whole checkpoint: step-00000010-epoch-1 is torn: no"),
        ("", "URL: it is empty"),
    ],
)
def test_what_cannot_be_begun_from_is_told_before_anything_is_made(
    shell: Shell, name: str, why: str
) -> None:
    shell.script("train.py", TRAINS)
    Path(shell.folder / "empty").mkdir()
    Path(shell.folder / "torn" / "step-00000010-epoch-1").mkdir(parents=True)
    Path(shell.folder / "torn" / "step-00000010-epoch-1" / "part-00000.json").touch()
    ended = shell.asked("run", "--begin-from", name, "train.py")
    assert ended.returncode in (1, 2)
    assert re.search(why, ended.stderr), ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (shell.folder / "runs").exists()

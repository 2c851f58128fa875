"""A whole job and its store: what cannot be written is told, what is due is written at the end."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from exchanging import exchange
from shells import Shell
from waiting import DEADLINE_S, eventually

from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import Stored

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

TRAINS = """
import pathlib, time
import torch
import torch.distributed as dist
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

dist.init_process_group("gloo")
checkpointer = Checkpointer.from_env()
state = {"w": torch.zeros(1_000)}
step = checkpointer.restore(state) or 0
enough = torch.zeros(1)
while not enough:
    step += 1
    enough += pathlib.Path("enough").exists()
    dist.all_reduce(enough)
    state["w"] += 1
    telemetry.step(step)
    checkpointer.save(step, state)
    time.sleep(0.002)
dist.destroy_process_group()
"""


def said(process: "subprocess.Popen[str]", what: str) -> str:
    """The line of stderr that says it."""
    assert process.stderr is not None
    return next(line for line in iter(process.stderr.readline, "") if what in line)


def test_a_store_that_cannot_be_written_is_told_and_goes_on_when_it_can(shell: Shell) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    process = shell.start("run", "--nodes", "2", "-n", "1", "train.py")
    eventually(lambda: list(shell.folder.rglob("manifest.json")), "a first checkpoint is whole")
    job = status(shell)
    store = Path(job["store_url"].removeprefix("file://"))
    aside = store.with_name("aside")
    aside.write_text("in its place")
    exchange(store, aside)  # its agents would make a folder anew that is missing for a moment

    told = said(process, "do not reach their store")
    assert str(store) in told  # that it cannot be written, or listed: whoever comes first
    name = job["name"]
    assert "do not reach their store" in shell.asked("why", name).stdout
    assert "do not reach their store" in shell.asked("story", name).stdout
    assert "do not reach their store" in shell.asked("status", name).stdout
    before = status(shell)["step"]
    eventually(lambda: status(shell)["step"] > before, "training goes on")

    exchange(store, aside)
    back = said(process, "reach their store again: step ")
    (shell.folder / "enough").touch()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    assert "no fault" in errors.splitlines()[-1]
    assert newest(store) >= int(back.rsplit("step ", 1)[1].split()[0])
    assert "reach their store again" in shell.asked("story", name).stdout


def test_what_is_saved_at_the_very_end_reaches_the_store_before_the_run_ends(shell: Shell) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS.replace("while not enough:", "while step < 100:"))
    done = shell.holdfast("run", "--nodes", "2", "-n", "1", "train.py")
    assert done.returncode == 0, done.stderr
    (manifest, *_) = shell.folder.rglob("manifest.json")
    assert newest(manifest.parents[1]) == 100


def newest(store: Path) -> int:
    """Step of the newest whole checkpoint. One that came too fast after another may be given up."""
    found = whole(FileStore(str(store)))
    return next(one.step for one in found if isinstance(one, Stored))


def status(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.asked("status", "--json").stdout)
    return found

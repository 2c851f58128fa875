"""A run that ends by itself, well or not, leaves its last step in the store."""

import pytest
from shells import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

TRAINS = """
import pathlib, shutil, sys
import torch
from holdfast.checkpoint import Checkpointer

checkpointer = Checkpointer.from_env()
state = {"w": torch.zeros(1_000)}
for step in range((checkpointer.restore(state) or 0) + 1, 18):
    if step == int(sys.argv[1]):
        raise ValueError("a bad sample")
    state["w"] += 1
    checkpointer.save(step, state)
if sys.argv[2:]:
    shutil.rmtree(sys.argv[2])
    pathlib.Path(sys.argv[2]).touch()
"""


@pytest.mark.parametrize(("raises_at", "code", "last"), [(8, 1, 7), (0, 0, 17)])
def test_it_is_there_long_before_one_is_due(
    shell: Shell, raises_at: int, code: int, last: int
) -> None:
    shell.script("train.py", TRAINS)
    ended = shell.holdfast("run", "-n", "2", "train.py", str(raises_at))
    assert ended.returncode == code, ended.stderr
    assert "did not reach the store" not in ended.stderr
    (checkpoints,) = shell.folder.glob("runs/*/jobs/*/checkpoints/life-*")
    listed = shell.asked("checkpoint", "ls", f"file://{checkpoints}")
    assert [line.split()[1] for line in listed.stdout.splitlines()[1:]] == [str(last)]
    assert shell.leftovers() == []


def test_a_store_that_is_gone_is_said_and_not_waited_for(shell: Shell) -> None:
    shell.script("train.py", TRAINS)
    store = shell.folder / "store"
    store.mkdir()
    url = f"file://{store}"
    ended = shell.holdfast("run", "--store-url", url, "train.py", "0", str(store))
    assert ended.returncode == 0, ended.stderr
    assert "waiting: its last step, 17, goes to the store" in ended.stderr
    assert "step 17 did not reach the store" in ended.stderr
    assert "a last checkpoint may not be" not in ended.stderr
    assert "step 17 did not reach it" in shell.asked("status").stdout
    assert shell.leftovers() == []


def test_nothing_is_waited_for_where_a_script_keeps_no_snapshots(shell: Shell) -> None:
    shell.script("train.py", "from holdfast import telemetry; telemetry.step(3)")
    ended = shell.holdfast("run", "train.py")
    assert ended.returncode == 0, ended.stderr
    story = shell.asked("story").stdout
    assert "is done: every rank ended with exit code 0" in story
    assert "its last step" not in story
